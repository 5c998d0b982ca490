// The files of a source as a plan sees them. A program on disk, an archive and a test each make one.

export type SourceFiles = {
  /** The paths of all files, relative to the root of the source, without a leading slash. */
  paths: ReadonlySet<string>
  /** The text of a small file. Null: there is none, or it is too large to be read. */
  read(path: string): string | null
}

/** A larger file is no configuration that somebody wrote by hand. */
export const MAX_FILE_BYTES = 1_000_000

const MAX_TEXTS = 2_000
/** All that is parsed once and kept, and the longest text of it. Far more than somebody writes by hand. */
const MAX_PARSED_CHARACTERS = 4 * 1024 ** 2
const MAX_PARSED_TEXT = 512 * 1024

/** The files below a folder, which may be the whole source (`''`). */
export type Folder = {
  /** Relative to the root of the source. */
  path: string
  has(name: string): boolean
  read(name: string): string | null
  /** A JSON object, or null for anything else. */
  readJson(name: string): Record<string, unknown> | null
  /** The value of the text, parsed at the first question. Null: there is none, or it is too long to be parsed. */
  parse<Value>(name: string, parseText: (text: string) => Value | null): Value | null
  /** The names of the files and folders directly in it. */
  names(): string[]
  /** All files below it, relative to it. */
  all(): string[]
  folder(name: string): Folder
  /** The whole source, outwards from this folder: itself first. */
  outwards(): Folder[]
}

/** The folder `path` of the files. Each text is read once, and no more than a plan needs. */
export function openSource({ paths, read }: SourceFiles, path: string): Folder {
  const texts = new Map<string, string | null>()
  const children = indexFolders(paths)
  const readOnce = (file: string) => {
    if (!texts.has(file) && texts.size < MAX_TEXTS) texts.set(file, read(file))
    return texts.get(file) ?? null
  }
  const values = new Map<string, unknown>()
  let left = MAX_PARSED_CHARACTERS
  const parseOnce = (file: string, parseText: (text: string) => unknown) => {
    if (values.has(file)) return values.get(file)
    const text = readOnce(file)
    const isShort = text !== null && text.length <= Math.min(left, MAX_PARSED_TEXT)
    if (isShort) left -= text.length
    const value = isShort ? parseText(text) : null
    if (text !== null) values.set(file, value)
    return value
  }
  const open = (path: string): Folder => {
    const prefix = path === '' ? '' : `${path}/`
    return {
      path,
      has: name => paths.has(prefix + name),
      read: name => readOnce(prefix + name),
      readJson: name => parseOnce(prefix + name, toObject) as ReturnType<typeof toObject>,
      parse: <Value>(name: string, parseText: (text: string) => Value | null) =>
        parseOnce(prefix + name, parseText) as Value | null,
      names: () => [...(children.get(path) ?? [])],
      all: () => listBelow(paths, children, path).map(file => file.slice(prefix.length)),
      folder: name => open(normalize(prefix + name)),
      outwards: () => parentsOf(path).map(open),
    }
  }
  return open(path)
}

type Children = Map<string, Set<string>>

/** The names in each folder, so that no question about a folder looks at the files of others. They are sorted, because
 * archives and disks list them in another order, and a plan names the first. */
function indexFolders(paths: Iterable<string>): Children {
  const children: Children = new Map()
  for (const path of paths) {
    for (let end = path.length; end > 0; ) {
      const slash = path.lastIndexOf('/', end - 1)
      const folder = slash < 0 ? '' : path.slice(0, slash)
      const names = children.get(folder)
      const name = path.slice(slash + 1, end)
      // Its parents are known since its first file.
      if (names) {
        names.add(name)
        break
      }
      children.set(folder, new Set([name]))
      end = slash
    }
  }
  for (const [folder, names] of children) if (names.size > 1) children.set(folder, new Set([...names].sort()))
  return children
}

function listBelow(paths: ReadonlySet<string>, children: Children, folder: string): string[] {
  const found: string[] = []
  const open = [folder]
  // The list grows while it is walked.
  for (const at of open)
    for (const name of children.get(at) ?? []) {
      const path = at === '' ? name : `${at}/${name}`
      if (paths.has(path)) found.push(path)
      if (children.has(path)) open.push(path)
    }
  return found
}

/** Without `.`, `..` and empty parts. */
export function normalize(path: string): string {
  const parts: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') parts.pop()
    else if (part !== '' && part !== '.') parts.push(part)
  }
  return parts.join('/')
}

/** The path from one folder of the source to another. Empty for the same. */
export function relativePath(from: string, to: string): string {
  const [start, end] = [from.split('/').filter(Boolean), to.split('/').filter(Boolean)]
  const shared = start.findIndex((part, i) => part !== end[i])
  const common = shared < 0 ? start.length : shared
  return [...start.slice(common).map(() => '..'), ...end.slice(common)].join('/')
}

function parentsOf(path: string): string[] {
  const parts = path === '' ? [] : path.split('/')
  return Array.from({ length: parts.length + 1 }, (_, i) => parts.slice(0, parts.length - i).join('/'))
}

function toObject(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}
