// Addresses of the hosts that callers name. Their servers of names may be slow on purpose.
import { type LookupAddress, NODATA, NOTFOUND } from 'node:dns'
import { lookup, Resolver } from 'node:dns/promises'

/** Without threads of the process, and with an end. */
const RESOLVER = new Resolver({ timeout: 2000, tries: 2 })

/**
 * The system's own search has names of /etc/hosts and of search domains, too, but it takes one of four threads of the
 * process, for as long as the servers of names like. So it is asked only about names that DNS does not have, and at
 * most about two at once.
 */
const MOST_SEARCHES = 2
let searches = 0

export async function findAddresses(host: string, resolver = RESOLVER): Promise<LookupAddress[]> {
  const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  const found = answers.flatMap((answer, i) =>
    answer.status === 'fulfilled' ? answer.value.map(address => ({ address, family: i === 0 ? 4 : 6 })) : [],
  )
  if (found.length > 0) return found
  const codes = answers.map(answer => (answer.status === 'rejected' ? answer.reason.code : ''))
  if (!codes.every(code => NOWHERE.includes(code))) throw new Error(`the servers of names do not answer about ${host}.`)
  if (searches >= MOST_SEARCHES) throw new Error('other names are being searched.')
  searches++
  return lookup(host, { all: true }).finally(() => {
    searches--
  })
}

/** Codes of a name that DNS does not have, or of a machine without servers of names. */
const NOWHERE: string[] = [NOTFOUND, NODATA, 'ECONNREFUSED']
