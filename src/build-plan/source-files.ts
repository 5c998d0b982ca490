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

/** The same files, of which each text is read once, and no more than a plan needs. */
export function readOnce({ paths, read }: SourceFiles): SourceFiles {
  const texts = new Map<string, string | null>()
  return {
    paths,
    read(path) {
      if (!texts.has(path) && texts.size < MAX_TEXTS) texts.set(path, read(path))
      return texts.get(path) ?? null
    },
  }
}

/** The files below a folder, which may be the whole source (`''`). */
export type Folder = {
  /** Relative to the root of the source. */
  path: string
  has(name: string): boolean
  read(name: string): string | null
  /** A JSON object, or null for anything else. */
  readJson(name: string): Record<string, unknown> | null
  /** The names of the files and folders directly in it. */
  names(): string[]
  /** All files below it, relative to it. */
  all(): string[]
  folder(name: string): Folder
  /** The whole source, outwards from this folder: itself first. */
  outwards(): Folder[]
}

export function folderAt(files: SourceFiles, path = ''): Folder {
  const prefix = path === '' ? '' : `${path}/`
  let below: string[] | undefined
  const all = () =>
    (below ??= [...files.paths].flatMap(file => (file.startsWith(prefix) ? file.slice(prefix.length) : [])))
  return {
    path,
    has: name => files.paths.has(prefix + name),
    read: name => files.read(prefix + name),
    readJson: name => toObject(files.read(prefix + name)),
    names: () => [...new Set(all().map(file => file.split('/', 1)[0]!))],
    all,
    folder: name => folderAt(files, normalize(prefix + name)),
    outwards: () => parentsOf(path).map(parent => folderAt(files, parent)),
  }
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

function parentsOf(path: string): string[] {
  const parts = path === '' ? [] : path.split('/')
  return Array.from({ length: parts.length + 1 }, (_, i) => parts.slice(0, parts.length - i).join('/'))
}

function toObject(text: string | null): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text ?? 'null')
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}
