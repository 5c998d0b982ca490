// Lookup of TXT records in DNS, with limits on time and count.
import { Resolver } from 'node:dns/promises'
import type { Platform } from '../../platform.ts'
import { fail } from './errors.ts'

const LOOKUP_MS = 5000
const MAX_RECORDS = 100
const NOT_FOUND_CODES = ['ENOTFOUND', 'ENODATA']

export const createTxtResolver =
  (servers?: string[]): NonNullable<Platform['resolveTxt']> =>
  name => {
    const resolver = new Resolver({ timeout: 2000, tries: 2 })
    if (servers) resolver.setServers(servers)
    return resolver.resolveTxt(name)
  }

/** Returns an empty list for a name without records. Throws `upstream_timeout` or `upstream_error`. */
export async function lookUpTxtRecords(
  { resolveTxt = createTxtResolver() }: Pick<Platform, 'resolveTxt'>,
  name: string,
) {
  const timeout = Promise.withResolvers<never>()
  const timer = setTimeout(() => timeout.reject(fail('upstream_timeout', { about: `DNS: ${name}` })), LOOKUP_MS)
  try {
    const records = await Promise.race([resolveTxt(name), timeout.promise])
    return records.slice(0, MAX_RECORDS).map(chunks => chunks.join(''))
  } catch (error) {
    const code = (error as { code?: string }).code ?? ''
    if (NOT_FOUND_CODES.includes(code)) return []
    if (code === 'upstream_timeout') throw error
    if (code === 'ETIMEOUT') throw fail('upstream_timeout', { about: `DNS: ${name}`, cause: error })
    throw fail('upstream_error', { about: `DNS: ${name}`, cause: error })
  } finally {
    clearTimeout(timer)
  }
}
