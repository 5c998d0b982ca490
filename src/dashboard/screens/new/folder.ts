// A folder that was chosen or dropped: read by the rules of the command line, and packed for an upload.
import { createTarPacker } from 'modern-tar'
import {
  ALWAYS_IGNORED,
  describeFile,
  IGNORE_FILES,
  type IgnoreRules,
  isIgnored,
  MADE_RULES,
  MAX_ARCHIVE_BYTES,
  MAX_UNPACKED_BYTES,
  mayHoldSecrets,
  readPackageFile,
  readRules,
} from '../../../client/archive-rules.ts'

export type FolderFile = { path: string; file: File }
export type Folder = {
  name: string
  files: FolderFile[]
  /** Folders end with a slash. */
  leftOut: string[]
  secretFiles: FolderFile[]
}

/** A file has `open`, a folder `list`. */
type TreeNode = { name: string; open?: () => Promise<File>; list?: () => Promise<TreeNode[]> }

/** An error whose message has the remedy. */
export class FolderError extends Error {
  override readonly name = 'FolderError'
}

/** Several things that were dropped together are a folder without a name. */
export function treeOfDrop(entries: FileSystemEntry[]): TreeNode {
  const [first] = entries
  if (entries.length === 1 && first!.isDirectory) return treeOfEntry(first!)
  return { name: '', list: async () => entries.map(treeOfEntry) }
}

const treeOfEntry = (entry: FileSystemEntry): TreeNode =>
  entry.isDirectory
    ? { name: entry.name, list: async () => (await listEntries(entry as FileSystemDirectoryEntry)).map(treeOfEntry) }
    : { name: entry.name, open: () => new Promise((done, fail) => (entry as FileSystemFileEntry).file(done, fail)) }

async function listEntries(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader()
  const all: FileSystemEntry[] = []
  for (;;) {
    // Each call returns some entries, and the last one none.
    const some = await new Promise<FileSystemEntry[]>((done, fail) => reader.readEntries(done, fail))
    if (some.length === 0) return all
    all.push(...some)
  }
}

/** Builds a tree of the files of `<input webkitdirectory>`, whose paths begin with the name of the folder. */
export function treeOfFiles(files: Iterable<File>): TreeNode {
  type Folders = Map<string, File | Folders>
  const root: Folders = new Map()
  for (const file of files) {
    const names = file.webkitRelativePath.split('/')
    let at = root
    for (const name of names.slice(0, -1)) {
      const inner = at.get(name)
      const next = inner instanceof Map ? inner : new Map()
      at.set(name, next)
      at = next
    }
    at.set(names.at(-1)!, file)
  }
  const toNode = ([name, inner]: [string, File | Folders]): TreeNode =>
    inner instanceof Map ? { name, list: async () => [...inner].map(toNode) } : { name, open: async () => inner }
  const [first] = root
  return first ? toNode(first) : { name: '', list: async () => [] }
}

type Found = Pick<Folder, 'files' | 'leftOut'>
type WalkOptions = { signal: AbortSignal; onFile: (count: number) => void }

async function walk(
  { list }: TreeNode,
  folder: string,
  inherited: IgnoreRules[],
  found: Found,
  options: WalkOptions,
): Promise<void> {
  const nodes = (await list!()).toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const texts = IGNORE_FILES.map(name => nodes.find(node => node.name === name && node.open))
  const rules = await Promise.all(texts.flatMap(node => (node ? [node.open!().then(file => file.text())] : [])))
  const all = [...inherited, ...readRules(folder, rules)]
  for (const node of nodes) {
    options.signal.throwIfAborted()
    const path = folder + node.name
    const shown = node.list ? `${path}/` : path
    if (ALWAYS_IGNORED.includes(node.name) || isIgnored(shown, all)) found.leftOut.push(shown)
    else if (node.list) await walk(node, `${path}/`, all, found, options)
    else {
      found.files.push({ path, file: await node.open!() })
      options.onFile(found.files.length)
    }
  }
}

export async function readFolder(tree: TreeNode, options: WalkOptions): Promise<Folder> {
  const found: Found = { files: [], leftOut: [] }
  await walk(tree, '', [MADE_RULES], found, options)
  const { files, leftOut } = found
  if (files.length === 0)
    throw new FolderError(`${tree.name || 'The dropped item'} has no files to deploy. Choose another folder.`)
  const manifest = await files.find(({ path }) => path === 'package.json')?.file.text()
  const { name } = manifest === undefined ? {} : readManifest(manifest)
  return {
    name: name ?? tree.name,
    files,
    leftOut,
    secretFiles: files.filter(({ path }) => mayHoldSecrets(path)),
  }
}

function readManifest(text: string) {
  try {
    return readPackageFile(text)
  } catch (error) {
    throw new FolderError(`package.json is not JSON: ${(error as Error).message}. Correct it, then choose again.`)
  }
}

/** A browser does not say which files can run. Those that begin with `#!` are meant to. */
const isScript = (start: Uint8Array) => start[0] === 0x23 && start[1] === 0x21

export type Packing = { signal: AbortSignal; onProgress: (done: number) => void }

/** `onProgress` gets the bytes that were read. Holds the packed archive and one chunk of a file at a time. */
export async function packFiles(files: FolderFile[], { signal, onProgress }: Packing): Promise<Blob> {
  if (files.reduce((sum, { file }) => sum + file.size, 0) > MAX_UNPACKED_BYTES)
    throw new FolderError('The files have more than 2 GB. List what the build does not need in .slipwayignore.')
  const { readable, controller } = createTarPacker()
  const chunks: Uint8Array<ArrayBuffer>[] = []
  let packed = 0
  const collect = new WritableStream<Uint8Array<ArrayBuffer>>({
    write(chunk) {
      packed += chunk.length
      if (packed > MAX_ARCHIVE_BYTES)
        throw new FolderError('The archive has more than 200 MB. List what the build does not need in .slipwayignore.')
      chunks.push(chunk)
    },
  })
  let read = 0
  const count = () =>
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, out) {
        read += chunk.length
        onProgress(read)
        out.enqueue(chunk)
      },
    })
  async function addFiles() {
    for (const { path, file } of files) {
      signal.throwIfAborted()
      try {
        const start = new Uint8Array(await file.slice(0, 2).arrayBuffer())
        const entry = controller.add(describeFile(path, file.size, isScript(start)))
        await file.stream().pipeThrough(count()).pipeTo(entry, { signal })
      } catch (error) {
        signal.throwIfAborted()
        if ((error as Error).name !== 'NotReadableError' && (error as Error).name !== 'NotFoundError') throw error
        throw new FolderError(`${path} changed while it was read. Choose the folder again.`)
      }
    }
    controller.finalize()
  }
  const compression = new CompressionStream('gzip') as TransformStream<Uint8Array, Uint8Array<ArrayBuffer>>
  const compressing = readable.pipeThrough(compression, { signal }).pipeTo(collect, { signal })
  const adding = addFiles().catch(error => {
    controller.error(error)
    throw error
  })
  await Promise.all([compressing, adding])
  return new Blob(chunks, { type: 'application/gzip' })
}

const ARCHIVE_NAME = /\.(tar\.gz|tgz)$/i
export const isArchiveName = (name: string): boolean => ARCHIVE_NAME.test(name)
export const nameOfArchive = (name: string): string => name.replace(ARCHIVE_NAME, '')

/** Throws if the upload would be refused. */
export async function checkArchive(file: File): Promise<File> {
  if (file.size > MAX_ARCHIVE_BYTES) throw new FolderError(`${file.name} has more than 200 MB, which is the limit.`)
  const [first, second] = new Uint8Array(await file.slice(0, 2).arrayBuffer())
  if (first !== 0x1f || second !== 0x8b)
    throw new FolderError(`${file.name} is not compressed with gzip. Make it with: tar czf ${file.name} .`)
  return file
}
