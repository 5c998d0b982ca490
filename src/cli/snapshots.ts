// Snapshots as the command line shows them.
import type { Item } from '../client/client.ts'

export type Snapshot = Item<'GET /v2/snapshots'>

const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB']

export function describeBytes(bytes: number): string {
  let [amount, unit] = [bytes, 0]
  for (; amount >= 1024 && unit < UNITS.length - 1; unit++) amount /= 1024
  return `${unit === 0 ? amount : amount.toFixed(1)} ${UNITS[unit]}`
}

/** The deployment may be left out in a linked folder. */
export function splitStore(args: (string | undefined)[]): [name: string | undefined, store: string] {
  const given = args.filter(arg => arg !== undefined)
  return given.length === 1 ? [undefined, given[0]!] : [given[0], given[1]!]
}
