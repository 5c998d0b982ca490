// The program's half of the device grant, against servers that answer strangely.
import { afterEach, expect, it, vi } from 'vitest'
import { requestDeviceCode, waitForDeviceToken } from '../../src/client/device-grant.ts'
import { ConnectionError } from '../../src/client/errors.ts'

const options = { url: 'https://slipway.example.com' }
const address = `${options.url}/device`
const code = {
  device_code: 'device',
  user_code: 'BCDF-GHJK',
  verification_uri: address,
  verification_uri_complete: address,
  interval: 5,
  expires_in: 900,
}
const answer = (body: unknown) => vi.spyOn(globalThis, 'fetch').mockImplementation(async () => Response.json(body))
afterEach(() => {
  vi.restoreAllMocks()
})

it.each([
  [0, 0],
  [-1, -1],
  [1e12, 1e12],
  ['x', null],
  [undefined, undefined],
])('a server that asks for a wait of %j s, and for an end after %j s, is asked after a pause', async (...given) => {
  answer({ ...code, interval: given[0], expires_in: given[1] })
  expect(await requestDeviceCode(options, 'laptop')).toEqual(code)
})

it.each([null, [], 'x', { ...code, verification_uri_complete: undefined }])('refuses %j as a code', async body => {
  answer(body)
  await expect(requestDeviceCode(options, 'laptop')).rejects.toBeInstanceOf(ConnectionError)
})

it.each([null, {}, { access_token: 1, workspace_id: 'x' }])('refuses %j as a token', async body => {
  answer(body)
  const quick = { ...code, interval: 0.001 }
  await expect(waitForDeviceToken(options, quick)).rejects.toBeInstanceOf(ConnectionError)
})
