// Reads the documents of files and folders, in YAML or JSON, with the line of each member. All faults of all files are
// reported at once. A file is not trusted: its size, depth and what its aliases expand to are bounded.
import { closeSync, lstatSync, openSync, readdirSync, readSync, realpathSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import {
  CORE_SCHEMA,
  constructFromEvents,
  EVENT_ID,
  type Event,
  getScalarValue,
  parseEvents,
  YAMLException,
} from 'js-yaml'
import type { DeclaredDocument, DocumentFault, Kind } from '../client/apply/documents.ts'
import { usageError } from './failure.ts'
import { formatBytes } from './output.ts'
import { readStdin } from './secret-input.ts'

const MAX_FILES = 1000
const MAX_FILE_BYTES = 8 * 1024 ** 2
const MAX_TOTAL_BYTES = 32 * 1024 ** 2
const MAX_DEPTH = 64
/** The limit of a document, with each alias expanded. */
const MAX_VALUES = 100_000
const MAX_CHARACTERS = 4 * 1024 ** 2
/** The limit of a file. A value, its name and the end of a collection are one event each, and cost much memory. */
const MAX_EVENTS = 400_000

type Path = (string | number)[]
export type FoundDocument = { value: unknown; placeOf: (path: Path) => { file: string; line: number } }
type Found = { documents: FoundDocument[]; faults: DocumentFault[] }

const isDocumentFile = (name: string) => /\.(ya?ml|json)$/i.test(name)

/** The file, or all documents below the folder in the order of their names. */
function listFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const files: string[] = []
  const root = `${realpathSync(path)}${sep}`
  const visit = (folder: string): void => {
    for (const name of readdirSync(folder).sort()) {
      const file = join(folder, name)
      // A link to a folder could lead in a circle.
      if (name.startsWith('.') || name === 'node_modules') continue
      if (lstatSync(file).isDirectory()) visit(file)
      else if (isDocumentFile(name) && statSync(file).isFile()) {
        // Another user may write into the folder, and link to a file that only this user can read.
        if (!realpathSync(file).startsWith(root)) throw usageError(`${file} is a link to a file outside of ${path}.`)
        files.push(file)
      }
      if (files.length > MAX_FILES) throw usageError(`${path} has more than ${MAX_FILES} files. Name a smaller folder.`)
    }
  }
  visit(path)
  if (files.length === 0) throw usageError(`${path} has no files named .yaml, .yml or .json.`)
  return files
}

export async function readDocumentFiles(paths: string[]): Promise<Found> {
  const found: Found = { documents: [], faults: [] }
  let total = 0
  const add = (file: string, text: string) => {
    const bytes = Buffer.byteLength(text)
    total += bytes
    const limit = bytes > MAX_FILE_BYTES ? MAX_FILE_BYTES : total > MAX_TOTAL_BYTES ? MAX_TOTAL_BYTES : undefined
    if (limit !== undefined) throw usageError(`${file}: the files have more than ${formatBytes(limit)}.`)
    parseFile(file, text, found)
  }
  for (const path of paths) {
    if (path === '-') add('stdin', await readStdin())
    else for (const file of listFiles(path)) add(file, readStart(file, MAX_FILE_BYTES + 1))
  }
  return found
}

/** Pipes and devices have no size, and some have no end. */
function readStart(file: string, bytes: number): string {
  const fd = openSync(file, 'r')
  try {
    const parts: Buffer[] = []
    for (let left = bytes; left > 0; ) {
      const part = Buffer.allocUnsafe(Math.min(left, 64 * 1024))
      const size = readSync(fd, part)
      if (size === 0) break
      parts.push(part.subarray(0, size))
      left -= size
    }
    return Buffer.concat(parts).toString('utf8')
  } finally {
    closeSync(fd)
  }
}

function parseFile(file: string, text: string, found: Found): void {
  const addFault = (line: number | undefined, message: string) =>
    void found.faults.push({ file, line, document: '', path: '', message })
  const lineAt = createLineFinder(text)
  let events: Event[]
  try {
    events = parseEvents(text, { maxDepth: MAX_DEPTH })
  } catch (error) {
    addFault(lineOfError(error), messageOf(error))
    return
  }
  if (events.length > MAX_EVENTS) {
    addFault(1, 'has too many values. Split it into several files')
    return
  }
  for (const part of splitDocuments(events)) {
    const places = readPlaces(part, text)
    const placeOf = (path: Path) => ({ file, line: lineAt(nearest(places, path)) })
    try {
      const [value] = constructFromEvents(part, { source: text, schema: CORE_SCHEMA })
      if (value === null || value === undefined) continue
      const fault = findHostileValue(value)
      if (fault) addFault(placeOf(fault.path).line, fault.message)
      else if (Array.isArray(value))
        for (const [i, item] of value.entries())
          found.documents.push({ value: item, placeOf: path => placeOf([i, ...path]) })
      else found.documents.push({ value, placeOf })
    } catch (error) {
      addFault(lineOfError(error), messageOf(error))
    }
  }
}

/** The text of the parser may quote the file, and a file may hold a secret by mistake. */
const messageOf = (error: unknown): string =>
  error instanceof YAMLException ? `is not valid YAML: ${error.reason}` : 'is not valid YAML'
const lineOfError = (error: unknown) => (error instanceof YAMLException && error.mark ? error.mark.line + 1 : undefined)

function splitDocuments(events: Event[]): Event[][] {
  const parts: Event[][] = []
  for (const event of events) {
    if (event.type === EVENT_ID.DOCUMENT) parts.push([])
    parts.at(-1)?.push(event)
  }
  return parts
}

/** The offset of a value, and its members. A tree, because a table of paths would repeat long names for each value. */
type Places = { offset: number; members: Map<string | number, Places> }

/** The values of an alias have the place of the alias. */
function readPlaces(events: Event[], source: string): Places {
  const root: Places = { offset: 0, members: new Map() }
  type Level = { places: Places; key: string | undefined; index: number; isMapping: boolean }
  const levels: Level[] = []
  let start = 0
  for (const event of events) {
    if (event.type === EVENT_ID.DOCUMENT) continue
    if (event.type === EVENT_ID.POP) {
      levels.pop()
      continue
    }
    const level = levels.at(-1)
    const offset = offsetOf(event)
    const enter = (places: Places) => {
      if (event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE)
        levels.push({ places, key: undefined, index: 0, isMapping: event.type === EVENT_ID.MAPPING })
    }
    if (level?.isMapping && level.key === undefined) {
      level.key = event.type === EVENT_ID.SCALAR ? getScalarValue(source, event) : '?'
      start = offset
      // A key that is a collection is not part of any path.
      enter({ offset, members: new Map() })
      continue
    }
    const places = level ? { offset: level.isMapping ? start : offset, members: new Map() } : root
    if (level) {
      level.places.members.set(level.isMapping ? level.key! : level.index, places)
      level.key = undefined
      level.index++
    } else root.offset = offset
    enter(places)
  }
  return root
}

function offsetOf(event: Event): number {
  if (event.type === EVENT_ID.SCALAR) return event.valueStart
  if (event.type === EVENT_ID.ALIAS) return event.anchorStart
  return event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE ? event.start : 0
}

/** The place of the value, or of the closest value around it. */
function nearest(root: Places, path: Path): number {
  let places = root
  for (const part of path) {
    const next = places.members.get(part)
    if (!next) break
    places = next
  }
  return places.offset
}

function createLineFinder(text: string): (offset: number) => number {
  const starts = [0]
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1)
  return offset => {
    let [low, high] = [0, starts.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if (starts[middle]! <= offset) low = middle
      else high = middle - 1
    }
    return low + 1
  }
}

const UNPAIRED_SURROGATE = 'has an unpaired surrogate'

/** Aliases share values, so a small file can expand beyond the memory, or contain itself. */
function findHostileValue(root: unknown): { path: Path; message: string } | undefined {
  let [values, characters] = [0, 0]
  const waiting: { value: unknown; path: Path }[] = [{ value: root, path: [] }]
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, path } = next
    values++
    if (typeof value === 'string') {
      characters += value.length
      if (!value.isWellFormed()) return { path, message: UNPAIRED_SURROGATE }
    }
    if (values > MAX_VALUES || characters > MAX_CHARACTERS || path.length > MAX_DEPTH)
      return { path: [], message: 'is too large once its aliases are expanded. Write it without aliases' }
    if (typeof value === 'number' && !Number.isFinite(value)) return { path, message: 'is not a JSON number' }
    if (typeof value !== 'object' || value === null) continue
    const members = Array.isArray(value) ? value.entries() : Object.entries(value)
    for (const [name, member] of members) {
      if (name === '__proto__') return { path, message: 'has a member __proto__, which is not allowed' }
      if (!String(name).isWellFormed()) return { path, message: UNPAIRED_SURROGATE }
      characters += String(name).length
      waiting.push({ value: member, path: [...path, name] })
    }
  }
  return undefined
}

export const toDeclared = ({ value, placeOf }: FoundDocument): DeclaredDocument => ({
  ...(value as DeclaredDocument & { kind: Kind }),
  placeOf,
})
