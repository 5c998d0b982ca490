// The names by which applications find their database and Redis. Pure.

/** Names that most frameworks read, for those that the platform sets. Variables of the application win over them. */
export const URL_ALIASES: Record<string, string> = { DATABASE_URI: 'DATABASE_URL', REDIS_URI: 'REDIS_URL' }

export const urlAliases = (uris: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(uris).flatMap(([name, uri]) => (URL_ALIASES[name] ? [[URL_ALIASES[name], uri]] : [])),
  )

/** The login in the URI of a store. `redis-cli -u` takes an empty name for that of a user. */
export function loginOf(uri: string): { user: string; password: string; database: string } {
  const { username, password, pathname } = new URL(uri)
  return {
    user: decodeURIComponent(username) || 'default',
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  }
}
