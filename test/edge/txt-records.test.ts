// TXT records in workerd, whose node:dns queries a resolver over HTTPS.
import { expect, it } from 'vitest'
import { lookUpTxtRecords } from '../../src/kernel/http/txt-records.ts'

it('a lookup of TXT records finds none or fails with an upstream error code', async () => {
  const result = await lookUpTxtRecords({ resolveTxt: undefined }, '_slipway.missing.invalid').catch(({ code }) => code)
  // An empty list needs a connection to the internet.
  expect([[], 'upstream_error', 'upstream_timeout']).toContainEqual(result)
})
