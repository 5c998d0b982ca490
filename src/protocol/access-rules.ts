// The rules of protected deployments that the control plane and the router share. Pure.

/** Below the address of a deployment: the router's own page, by which a browser gets its cookie. */
export const ACCESS_PATH = '/.well-known/slipway/access'
/** The type of a grant, so that it is taken for no other token of this installation. */
export const GRANT_TYPE = 'access-grant+jwt'
/** A grant is renewed by a text of at most so many characters. It becomes a part of a cookie. */
export const MAX_RENEWAL_LENGTH = 1000

// ---- paths that are open to everyone

export const MAX_OPEN_PATHS = 20
export const MAX_OPEN_PATH_LENGTH = 256
const MAX_REQUEST_PATH_LENGTH = 2048

const PLAIN_CHARACTERS = /^\/[A-Za-z0-9._~!$&'()*+,=:@/-]*$/

const isPlainPath = (path: string): boolean =>
  PLAIN_CHARACTERS.test(path) && !path.includes('//') && !path.split('/').some(segment => /^\.+$/.test(segment))

/** `/hooks/stripe` is that path alone, `/hooks/*` is each path below `/hooks/`. */
export function isOpenPathPattern(text: string): boolean {
  const path = text.endsWith('/*') ? text.slice(0, -2) : text
  return isPlainPath(path) && !path.includes('*') && path.length <= MAX_OPEN_PATH_LENGTH
}

/**
 * A request matches only by a path in plain spelling: with an escape, a dot segment or an empty segment, an application
 * may read another path in it.
 */
export function isOpenPath(patterns: readonly string[], path: string): boolean {
  if (patterns.length === 0 || path.length > MAX_REQUEST_PATH_LENGTH || !isPlainPath(path)) return false
  return patterns.some(pattern => {
    const folder = pattern.slice(0, -1)
    return pattern.endsWith('/*') ? path.startsWith(folder) && path !== folder : path === pattern
  })
}
