// Lists an archive while it streams: the names of its files, and the texts that a plan may read. Memory and CPU are
// bounded; an archive beyond the bounds is stored, and has no plan.
import { applicationRoot, configurationPathOf } from '../../build-plan/application-root.ts'
import type { SourceSettings } from '../../build-plan/plan-preview.ts'
import { MAX_FILE_BYTES, normalize, type SourceFiles } from '../../build-plan/source-files.ts'
import { decompress } from '../../kernel/http/decompress.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import type { Hold } from '../../kernel/limits/held-bytes.ts'
import { ARCHIVE_BOUNDS, createTarReader, type TarEntry } from '../../protocol/tar-reader.ts'

const MAX_LISTED_FILES = 20_000
const MAX_LISTED_FOLDERS = 20_000
const MAX_PATH_CHARACTERS = 4 * 1024 ** 2
const MAX_UNPACKED_BYTES = 256 * 1024 ** 2
const MAX_TEXT_BYTES = 8 * 1024 ** 2
/** A longer one is no program that a plan looks into. */
const MAX_PROGRAM_BYTES = 64 * 1024
/** An upload that takes longer has no plan: what is listed waits in memory for the rest. */
const MAX_LISTING_MS = 10 * 60_000
const DECODER_BYTES = 128 * 1024
const ENTRY_BYTES = 100
const TOO_LARGE = 'The archive is too large to be listed'
/** The decoder holds what a piece unpacks to, at most a thousandfold. */
const PIECE_BYTES = 4096

/** Read anywhere: the packages of a workspace. */
const MANIFEST = /(?:^|\/)(?:package\.json|Cargo\.toml|pyproject\.toml|go\.mod|pom\.xml)$/
const CONFIGURATION = /\.(?:json|toml|ya?ml|lock|xml|txt|mod|work)$/
const PROGRAM = /\.(?:py|go|[cm]?[jt]s|rb|ru|sh|gradle|kts)$|(?:^|\/)\.?[\w-]+$/
/** A plan looks for programs this deep below the application. */
const PROGRAM_DEPTH = 3

export type ListedFiles = SourceFiles & { hasUnread: () => boolean }

/** A listing takes memory in the share of a workspace. Without room, the archive is not listed. */
type Room = Pick<Hold, 'growTo' | 'release'>

/** `write` fails if the archive has to be refused. `end` returns null for one that cannot be listed. */
export function listArchive(settings: SourceSettings, room: Room) {
  const start = performance.now()
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  let refused: Failure | undefined
  const unpacked = decompress(readable as unknown as AsyncIterable<Uint8Array>, 'gzip')
  const listing = list(unpacked, settings, room).catch(error => {
    if (error instanceof Failure && error.code === 'archive_too_many_files') refused = error
    return null
  })
  let isOpen = true
  listing.then(files => {
    isOpen = false
    if (files === null) room.release()
    // A write that waits for its reader would wait for ever.
    writer.abort().catch(() => {})
  })
  const check = () => {
    if (refused) throw refused
  }
  return {
    async write(chunk: Uint8Array): Promise<void> {
      if (isOpen && performance.now() - start > MAX_LISTING_MS) await writer.abort().catch(() => {})
      for (let at = 0; isOpen && at < chunk.byteLength; at += PIECE_BYTES)
        await writer.write(chunk.slice(at, at + PIECE_BYTES)).catch(() => {})
      check()
    },
    async end(): Promise<ListedFiles | null> {
      if (isOpen) await writer.close().catch(() => {})
      const files = await listing
      check()
      return files
    },
    cancel(): void {
      writer.abort().catch(() => {})
    },
  }
}

async function list(
  unpacked: AsyncIterable<Uint8Array>,
  settings: SourceSettings,
  room: Room,
): Promise<ListedFiles | null> {
  room.growTo(DECODER_BYTES)
  const mayRead = choose(settings)
  const paths = new Set<string>()
  const folders = new Set<string>()
  const texts = new Map<string, string | null>()
  let [entries, characters, bytes, unpackedBytes, hasUnread] = [0, 0, 0, 0, false]
  const estimateBytes = () => DECODER_BYTES + 2 * (bytes + characters) + ENTRY_BYTES * (paths.size + folders.size)
  type Text = { path: string; decoder: TextDecoder; parts: string }
  let text: Text | null = null
  const endText = () => {
    if (text) texts.set(text.path, text.parts + text.decoder.decode())
  }
  /** Returns the text that follows, if it is read. */
  function addEntry({ name, type, size }: TarEntry): Text | null {
    if (++entries > ARCHIVE_BOUNDS.entries) throw fail('archive_too_many_files')
    if (name.length > ARCHIVE_BOUNDS.pathLength) throw new Error(TOO_LARGE)
    const path = normalize(name)
    if (type === 'folder' || path === '' || paths.size >= MAX_LISTED_FILES) return null
    paths.add(path)
    addFolders(path, folders)
    characters += path.length
    room.growTo(estimateBytes())
    const isTooDeep = path.split('/', ARCHIVE_BOUNDS.depth + 1).length > ARCHIVE_BOUNDS.depth
    if (isTooDeep || characters > MAX_PATH_CHARACTERS || folders.size > MAX_LISTED_FOLDERS) throw new Error(TOO_LARGE)
    const isFile = type === 'file'
    if (!isFile || size > MAX_FILE_BYTES) texts.set(path, null)
    if (!isFile || !mayRead(path, size) || bytes + size > MAX_TEXT_BYTES) return null
    bytes += size
    room.growTo(estimateBytes())
    return { path, decoder: new TextDecoder(), parts: '' }
  }
  const reader = createTarReader()
  for await (const chunk of unpacked) {
    unpackedBytes += chunk.byteLength
    if (unpackedBytes > MAX_UNPACKED_BYTES) throw new Error(TOO_LARGE)
    for (const part of reader.read(chunk)) {
      if ('entry' in part) {
        endText()
        text = addEntry(part.entry)
      } else if (text) text.parts += text.decoder.decode(part.body, { stream: true })
    }
  }
  reader.end()
  endText()
  if (paths.size >= MAX_LISTED_FILES) return null
  return {
    paths,
    read(path) {
      if (paths.has(path) && !texts.has(path)) hasUnread = true
      return texts.get(path) ?? null
    },
    hasUnread: () => hasUnread,
  }
}

/** A plan has an index of the folders, which costs more than their paths. */
function addFolders(path: string, folders: Set<string>): void {
  for (let end = path.lastIndexOf('/'); end > 0; end = path.lastIndexOf('/', end - 1)) {
    const folder = path.slice(0, end)
    if (folders.has(folder)) return
    folders.add(folder)
  }
}

function choose(settings: SourceSettings): (path: string, size: number) => boolean {
  const configuration = normalize(configurationPathOf(settings))
  const root = applicationRoot(settings.root_directory, settings.platform_config_path)
  const inside = root === '' ? '' : `${root}/`
  return (path, size) => {
    if (path === configuration || MANIFEST.test(path)) return true
    const folder = path.slice(0, Math.max(0, path.lastIndexOf('/')))
    const isAbove = folder === '' || `${root}/`.startsWith(`${folder}/`)
    if (!isAbove && !path.startsWith(inside)) return false
    if (path.slice(inside.length).split('/', PROGRAM_DEPTH + 1).length > PROGRAM_DEPTH) return false
    return CONFIGURATION.test(path) || (size <= MAX_PROGRAM_BYTES && PROGRAM.test(path))
  }
}
