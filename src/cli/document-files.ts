// Reads the documents of files and folders, in YAML or JSON, with the line of each member. All faults of all files are
// reported at once. A file is not trusted: its size, depth and what its aliases expand to are bounded.
import { lstatSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
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
/** Of one document, with each alias expanded. */
const MAX_VALUES = 100_000
const MAX_CHARACTERS = 4 * 1024 ** 2

type Path = (string | number)[]
export type FoundDocument = { value: unknown; placeOf: (path: Path) => { file: string; line: number } }
type Found = { documents: FoundDocument[]; faults: DocumentFault[] }

const isDocumentFile = (name: string) => /\.(ya?ml|json)$/i.test(name)

/** Of a folder, all files of its kinds below it, in the order of their names. */
function listFiles(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const files: string[] = []
  const visit = (folder: string): void => {
    for (const name of readdirSync(folder).sort()) {
      const file = join(folder, name)
      // A link to a folder could lead in a circle.
      if (name.startsWith('.') || name === 'node_modules') continue
      if (lstatSync(file).isDirectory()) visit(file)
      else if (isDocumentFile(name) && statSync(file).isFile()) files.push(file)
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
  const add = (file: string, bytes: number, read: () => string) => {
    total += bytes
    const limit = bytes > MAX_FILE_BYTES ? MAX_FILE_BYTES : total > MAX_TOTAL_BYTES ? MAX_TOTAL_BYTES : undefined
    if (limit !== undefined) throw usageError(`${file}: the files have more than ${formatBytes(limit)}.`)
    parseFile(file, read(), found)
  }
  for (const path of paths) {
    if (path === '-') {
      const text = await readStdin()
      add('stdin', Buffer.byteLength(text), () => text)
    } else for (const file of listFiles(path)) add(file, statSync(file).size, () => readFileSync(file, 'utf8'))
  }
  return found
}

export function parseFile(file: string, text: string, found: Found): void {
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
  for (const part of splitDocuments(events)) {
    const lines = readPlaces(part, text)
    const placeOf = (path: Path) => ({ file, line: lineAt(nearest(lines, path)) })
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

const toPointer = (path: Path) => JSON.stringify(path)

/** The offset of each value, by its path. What an alias stands for has the place of the alias. */
function readPlaces(events: Event[], source: string): Map<string, number> {
  const places = new Map<string, number>()
  type Level = { path: Path; key: string | undefined; index: number; isMapping: boolean }
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
    if (level?.isMapping && level.key === undefined) {
      level.key = event.type === EVENT_ID.SCALAR ? getScalarValue(source, event) : '?'
      start = offset
      // A key that is a collection is not part of any path.
      if (event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE)
        levels.push({ path: ['?'], key: undefined, index: 0, isMapping: event.type === EVENT_ID.MAPPING })
      continue
    }
    const path: Path = level ? [...level.path, level.isMapping ? level.key! : level.index] : []
    places.set(toPointer(path), level?.isMapping ? start : offset)
    if (level) {
      level.key = undefined
      level.index++
    }
    if (event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE)
      levels.push({ path, key: undefined, index: 0, isMapping: event.type === EVENT_ID.MAPPING })
  }
  return places
}

function offsetOf(event: Event): number {
  if (event.type === EVENT_ID.SCALAR) return event.valueStart
  if (event.type === EVENT_ID.ALIAS) return event.anchorStart
  return event.type === EVENT_ID.MAPPING || event.type === EVENT_ID.SEQUENCE ? event.start : 0
}

/** The place of the value, or of what contains it. */
function nearest(places: Map<string, number>, path: Path): number {
  for (let length = path.length; length >= 0; length--) {
    const offset = places.get(toPointer(path.slice(0, length)))
    if (offset !== undefined) return offset
  }
  return 0
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

/** Aliases share what they stand for, so a small file can expand to more than any memory, or contain itself. */
function findHostileValue(root: unknown): { path: Path; message: string } | undefined {
  let [values, characters] = [0, 0]
  const waiting: { value: unknown; path: Path }[] = [{ value: root, path: [] }]
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { value, path } = next
    values++
    if (typeof value === 'string') characters += value.length
    if (values > MAX_VALUES || characters > MAX_CHARACTERS || path.length > MAX_DEPTH)
      return { path: [], message: 'is too large once its aliases are expanded. Write it without aliases' }
    if (typeof value === 'number' && !Number.isFinite(value)) return { path, message: 'is not a number of JSON' }
    if (typeof value !== 'object' || value === null) continue
    const members = Array.isArray(value) ? value.entries() : Object.entries(value)
    for (const [name, member] of members) {
      if (name === '__proto__') return { path, message: 'has a member __proto__, which is not allowed' }
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
