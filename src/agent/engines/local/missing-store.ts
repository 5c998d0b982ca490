// Recognizes in a log that an application cannot reach a Redis or a Postgres, and says how to get one. Pure.
import { stripControlCharacters } from '../../system/last-lines.ts'

const hintOf = (store: string, member: string, variable: string) =>
  `Its log says that it cannot connect to ${store}. If it has none, \`${member}\` starts one, whose address is in ` +
  `\`${variable}\`.`
/** By their usual ports, or their names in the words of drivers. */
const STORES = [
  { port: '6379', name: /redis/i, hint: hintOf('Redis', 'redis_memory_mb', 'REDIS_URI') },
  { port: '5432', name: /postgres/i, hint: hintOf('Postgres', 'db_max_connections', 'DATABASE_URI') },
] as const
const FAILED_TO_CONNECT = /ECONNREFUSED|ENOTFOUND|connection refused|could not connect/i
const NO_DIGITS = /\D+/

/** Says what to do about a store that is not there, by the log; undefined if the log says nothing of one. */
export function describeMissingStore(lines: string[]): string | undefined {
  const failed = lines.map(stripControlCharacters).filter(line => FAILED_TO_CONNECT.test(line))
  const isAbout = ({ port, name }: (typeof STORES)[number]) =>
    failed.some(line => line.split(NO_DIGITS).includes(port) || name.test(line))
  return STORES.find(isAbout)?.hint
}
