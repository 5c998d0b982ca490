// The releases of Postgres that Slipway may run on.

const OLDEST = [160_005, 170_001]

/**
 * Takes `server_version_num`. Earlier releases keep a plan when the role of a connection changes (CVE-2024-10976), and
 * each request sets its own role.
 */
export function findPostgresFault(version: number): string | undefined {
  const oldest = OLDEST.findLast(each => Math.trunc(each / 10_000) <= Math.trunc(version / 10_000))
  if (oldest !== undefined && version >= oldest) return undefined
  const name = `${Math.trunc(version / 10_000)}.${version % 10_000}`
  const reason = 'earlier releases can apply the row-level security of another role'
  return `The database is a Postgres ${name}. Use 16.5, 17.1 or newer: ${reason}.`
}
