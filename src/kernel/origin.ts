// The origin of the addresses that this installation gives. A Host header decides it on a development machine only.
import type { Config } from '../env.ts'
import { LOOPBACK } from './guarded-address.ts'

type Public = Pick<Config, 'publicUrl'>

/** Without PUBLIC_URL, which only development may leave out, the host that was asked has to be this machine. */
export const isOurHost = ({ publicUrl }: Public, url: string): boolean =>
  publicUrl !== undefined || LOOPBACK.test(new URL(url).hostname)

export function originOf(config: Public, url: string): string {
  if (config.publicUrl !== undefined) return config.publicUrl
  return isOurHost(config, url) ? new URL(url).origin : NOWHERE
}

/** For work that nobody asked for over HTTP. */
export const ownOrigin = ({ publicUrl }: Public): string => publicUrl ?? NOWHERE
const NOWHERE = 'https://slipway.invalid'
