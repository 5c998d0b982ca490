// The paths of a site: decoded into segments, and looked up in the list of its files, never in a folder. Pure.

/** The decoded segments, without the empty one of a final slash. Undefined: the router refuses the path. */
export function decodePath(path: string): string[] | undefined {
  let segments: string[]
  try {
    segments = path.split('/').slice(1).map(decodeURIComponent)
  } catch {
    return undefined
  }
  if (segments.some(segment => segment === '.' || segment === '..' || segment.includes('\0'))) return undefined
  return segments.at(-1) === '' ? segments.slice(0, -1) : segments
}

export const encodePath = (segments: string[]): string => `/${segments.map(encodeURIComponent).join('/')}`

/** A path of the list, or the segments of the path that has the file. */
export type Found = { file: string } | { redirect: string }

/**
 * A page has its address with and without `.html`, as on Netlify. Its folder, where relative links begin, is the one of
 * the address: `/docs` becomes `/docs/` for `docs/index.html`, and `/about/` becomes `/about` for `about.html`.
 */
export function findFile(has: (file: string) => boolean, segments: string[], isFolder: boolean): Found | undefined {
  // `a%2Fb` is one segment, and no file.
  if (segments.some(segment => segment === '' || segment.includes('/'))) return undefined
  const path = segments.map(segment => `/${segment}`).join('')
  const page = `${path}.html`
  const index = `${path}/index.html`
  if (isFolder || path === '') {
    if (has(index)) return { file: index }
    return path !== '' && has(page) ? { redirect: encodePath(segments) } : undefined
  }
  if (has(path)) return { file: path }
  if (has(page)) return { file: page }
  return has(index) ? { redirect: `${encodePath(segments)}/` } : undefined
}

/** Folders that hold only what a build tool names by its content. */
const BUILD_FOLDERS = /\/(_next\/static|_astro|_nuxt|_app\/immutable|_expo\/static)\//
/** Folders that may also hold files with names of their own. */
const SHARED_FOLDERS = /\/(assets|static|build)\//
const MIN_HASH_LENGTH = 8
/** Changes between lower case, upper case and digits: a name of words has few. */
const MIN_CHANGES = 4

/** The name has a hash of the content, so that the content never changes. In doubt it has none. */
export function isImmutable(file: string): boolean {
  const isOfBuild = BUILD_FOLDERS.test(file)
  if (!isOfBuild && !SHARED_FOLDERS.test(file)) return false
  const name = file.slice(file.lastIndexOf('/') + 1)
  const stem = name.includes('.') ? name.slice(0, name.lastIndexOf('.')) : name
  return isOfBuild ? /[\w-]{8}$/.test(stem) : stem.split(/[.-]/).some(looksRandom)
}

function looksRandom(part: string): boolean {
  if (part.length < MIN_HASH_LENGTH) return false
  if (/^[\da-f]+$/.test(part)) return /\d/.test(part) && /[a-f]/.test(part)
  const kinds = Array.from(part, letter => (/\d/.test(letter) ? 'digit' : /[A-Z]/.test(letter) ? 'upper' : 'lower'))
  return kinds.filter((kind, i) => i > 0 && kind !== kinds[i - 1]).length >= MIN_CHANGES
}
