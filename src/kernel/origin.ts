// The origin of the addresses that this installation gives. A Host header decides it on a development machine only.
import type { Config } from '../env.ts'
import { LOOPBACK_HOST } from '../protocol/guarded-address.ts'

type PublicUrlConfig = Pick<Config, 'publicUrl'>

/** Without PUBLIC_URL, which only development may leave out, the host that was asked has to be this machine. */
export const isOurHost = ({ publicUrl }: PublicUrlConfig, url: string): boolean =>
  publicUrl !== undefined || LOOPBACK_HOST.test(new URL(url).hostname)

export function requestOrigin(config: PublicUrlConfig, url: string): string {
  if (config.publicUrl !== undefined) return config.publicUrl
  return isOurHost(config, url) ? new URL(url).origin : UNKNOWN_ORIGIN
}

/** For work that nobody asked for over HTTP. */
export const configuredOrigin = ({ publicUrl }: PublicUrlConfig): string => publicUrl ?? UNKNOWN_ORIGIN
const UNKNOWN_ORIGIN = 'https://slipway.invalid'
