// The origin of this installation's URLs. Only on a development machine does the Host header decide it.
import type { Config } from '../../env.ts'
import { LOOPBACK_HOST } from '../../protocol/guarded-address.ts'

type PublicUrlConfig = Pick<Config, 'publicUrl'>

/** Without PUBLIC_URL, which only development may omit, the requested host must be this machine. */
export const isOurHost = ({ publicUrl }: PublicUrlConfig, url: string): boolean =>
  publicUrl !== undefined || LOOPBACK_HOST.test(new URL(url).hostname)

export function requestOrigin(config: PublicUrlConfig, url: string): string {
  if (config.publicUrl !== undefined) return config.publicUrl
  return isOurHost(config, url) ? new URL(url).origin : UNKNOWN_ORIGIN
}

export const configuredOrigin = ({ publicUrl }: PublicUrlConfig): string => publicUrl ?? UNKNOWN_ORIGIN
const UNKNOWN_ORIGIN = 'https://slipway.invalid'
