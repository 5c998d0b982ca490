// TXT records in workerd, whose node:dns queries a resolver over HTTPS.
import { expect, it } from 'vitest'
import { lookUpTxtRecords } from '../../src/kernel/txt-records.ts'

it('TXT records are looked up by the runtime, or fail with a code', async () => {
  const found = await lookUpTxtRecords({ resolveTxt: undefined }, '_slipway.nobody.invalid').catch(({ code }) => code)
  // With a connection to the internet, the name does not exist.
  expect([[], 'upstream_error', 'upstream_timeout']).toContainEqual(found)
})
