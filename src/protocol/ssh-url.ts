// The addresses of repositories that git reaches by SSH (pure): `ssh://git@host:22/path` and `git@host:path`.
export type SshRepository = {
  user: string
  host: string
  port: number
  /** The path, in the form that git sends. Without a slash at its beginning: within the home folder of the user. */
  path: string
}

/** For readers of schemas. `parseSshUrl` decides. */
export const SSH_URL_PATTERN =
  '(ssh://)?[A-Za-z0-9_][\\w.-]{0,63}@[A-Za-z0-9][A-Za-z0-9.-]{0,252}(:\\d{1,5})?[/:][\\w.~+/-]+'
const SSH_URL =
  /^ssh:\/\/([A-Za-z0-9_][\w.-]{0,63})@([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(?::(\d{1,5}))?(\/[\w.~+/-]+)$/
const SCP_URL = /^([A-Za-z0-9_][\w.-]{0,63})@([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?):(\/?(?!-)[\w.~+/-]+)$/
const MAX_PORT = 65_535
const DEFAULT_PORT = 22

/** Null where it is no such address, or its path has `.`, `..` or an empty part. */
export function parseSshUrl(text: string): SshRepository | null {
  if (text.length > 2048) return null
  const ofUrl = SSH_URL.exec(text)
  const [, user, host, third, fourth] = ofUrl ?? SCP_URL.exec(text) ?? []
  const path = ofUrl ? fourth : third
  if (user === undefined || host === undefined || path === undefined) return null
  const port = ofUrl && third !== undefined ? Number(third) : DEFAULT_PORT
  const parts = path.replace(/^\//, '').replace(/\/$/, '').split('/')
  if (port < 1 || port > MAX_PORT || parts.some(part => part === '' || /^\.{1,2}$/.test(part))) return null
  // Git takes `/~/` for the home folder.
  return { user, host: host.toLowerCase(), port, path: path.startsWith('/~/') ? path.slice(3) : path }
}

export const isSshUrl = (text: string): boolean => parseSshUrl(text) !== null

/** For relative addresses, and to compare hosts. The home folder is `/~/`. */
export function toSshUrl({ user, host, port, path }: SshRepository): URL {
  const place = port === DEFAULT_PORT ? host : `${host}:${port}`
  return new URL(`ssh://${user}@${place}${path.startsWith('/') ? path : `/~/${path}`}`)
}

/** The address as git takes it: a path of the home folder works at every host without `/~/`. */
export function toSshRemote(url: URL): string {
  const isOfHome = url.port === '' && url.pathname.startsWith('/~/')
  return isOfHome ? `${url.username}@${url.hostname}:${url.pathname.slice(3)}` : url.href
}
