// The program's half of the device authorization grant (RFC 8628): a code for a person, and then the key.
import { ApiError, ConnectionError } from './errors.ts'
import { type FormOptions, postForm } from './oauth-form.ts'
import { pause } from './retry.ts'

export type DeviceCode = {
  device_code: string
  user_code: string
  verification_uri: string
  verification_uri_complete: string
  expires_in: number
  interval: number
}
export type DeviceToken = { access_token: string; workspace_id: string }

const CLIENT_ID = 'slipway-cli'
const GRANT_TYPE = 'urn:ietf:params:oauth:grant-type:device_code'

const DEFAULT_INTERVAL_S = 5
const DEFAULT_EXPIRY_S = 900
const MAX_SECONDS = 3600
const isSeconds = (value: unknown): value is number => typeof value === 'number' && value > 0 && value <= MAX_SECONDS

export async function requestDeviceCode(options: FormOptions, deviceName: string): Promise<DeviceCode> {
  const fields = { client_id: CLIENT_ID, device_name: deviceName }
  const code = await postForm<DeviceCode | null>(options, '/device/code', fields)
  const texts = [code?.device_code, code?.user_code, code?.verification_uri, code?.verification_uri_complete]
  if (code === null || texts.some(text => typeof text !== 'string')) throw strangeAnswer(options)
  const { interval, expires_in } = code
  return {
    ...code,
    interval: isSeconds(interval) ? interval : DEFAULT_INTERVAL_S,
    expires_in: isSeconds(expires_in) ? expires_in : DEFAULT_EXPIRY_S,
  }
}

const strangeAnswer = ({ url }: FormOptions) =>
  new ConnectionError(
    `${url} answered without what it was asked for, which is no answer of Slipway. Check its address.`,
  )

/** Polls until the person has decided. Throws an ApiError with the code `access_denied` or `expired_token`. */
export async function waitForDeviceToken(options: FormOptions, code: DeviceCode): Promise<DeviceToken> {
  let seconds = code.interval
  const end = Date.now() + code.expires_in * 1000
  for (;;) {
    await pause(seconds * 1000, options.signal)
    try {
      const fields = { grant_type: GRANT_TYPE, client_id: CLIENT_ID, device_code: code.device_code }
      const token = await postForm<DeviceToken | null>(options, '/device/token', fields)
      if (typeof token?.access_token === 'string' && typeof token.workspace_id === 'string') return token
    } catch (error) {
      const isPending = error instanceof ApiError && error.code === 'authorization_pending'
      const isTooFast =
        error instanceof ConnectionError ||
        (error instanceof ApiError && (error.code === 'slow_down' || error.status === 503))
      if ((!isPending && !isTooFast) || Date.now() > end) throw error
      if (isTooFast) seconds += 5
      continue
    }
    throw strangeAnswer(options)
  }
}
