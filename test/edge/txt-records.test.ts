// TXT records in workerd, whose node:dns asks a resolver over HTTPS.
import { expect, it } from 'vitest'
import { lookUpTxtRecords } from '../../src/kernel/txt-records.ts'

it('are looked up by the runtime, or it is said why not', async () => {
  const found = await lookUpTxtRecords({ resolveTxt: undefined }, '_slipway.nobody.invalid').catch(({ code }) => code)
  // Where this machine reaches the internet, the name does not exist.
  expect([[], 'upstream_error', 'upstream_timeout']).toContainEqual(found)
})
