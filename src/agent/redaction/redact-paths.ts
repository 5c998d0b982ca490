// Replaces the folders of the agent in texts by neutral names, such as /app for the folder of an application.
import { realpathSync } from 'node:fs'

const MAX_PATH_LENGTH = 4096
const PATH_DELIMITERS = /[\s"'`()]/
const ID_PATTERN = '[0-9a-f-]{36}'
const FOLDER_NAMES: [path: string, name: string][] = [
  [`/builds/${ID_PATTERN}/${ID_PATTERN}/tree`, '/app'],
  [`/process/${ID_PATTERN}/revisions/${ID_PATTERN}/home`, '/home/app'],
  [`/process/${ID_PATTERN}/revisions/${ID_PATTERN}/tmp`, '/tmp'],
  ['/links/[0-9a-f]{12}/home', '/home/app'],
  ['/links/[0-9a-f]{12}/tmp', '/tmp'],
  [`/builds/${ID_PATTERN}/cache/home`, '/home/app'],
  [`/builds/${ID_PATTERN}/cache/tmp`, '/tmp'],
  [`/builds/${ID_PATTERN}/cache`, '/cache'],
  [`/builds/${ID_PATTERN}/source`, '/source'],
  ['', '/agent'],
]
/** A name that continues is another folder; a full stop may end a sentence. */
const NAME_END = '(?![\\w-]|\\.\\w)'

export type PathRedactor = {
  redact(text: string): string
  /** The length of an unfinished text without the path at its end that may go on. */
  settledLength(text: string): number
}

export function createPathRedactor(home: string): PathRedactor {
  const forms = [home, resolveLinks(home)].flatMap(path => [path, encodeURI(path)])
  const any = `(?:${[...new Set(forms)].map(escapeRegExp).join('|')})`
  const rules = FOLDER_NAMES.map(([path, name]) => [new RegExp(`${any}${path}${NAME_END}`, 'g'), name] as const)
  return {
    redact: text => rules.reduce((result, [pattern, name]) => result.replace(pattern, name), text),
    settledLength: text => Math.min(...forms.map(form => unfinishedPathStart(text, form))),
  }
}

function unfinishedPathStart(text: string, folder: string): number {
  const at = text.lastIndexOf(folder)
  if (at !== -1 && !PATH_DELIMITERS.test(text.slice(at + folder.length))) return at
  for (let length = Math.min(folder.length - 1, text.length); length > 0; length--)
    if (text.endsWith(folder.slice(0, length))) return text.length - length
  return text.length
}

/** A cut must not split a path: half of one would not be recognized and replaced. */
function safeCutLength(text: string): number {
  const from = Math.max(0, text.length - MAX_PATH_LENGTH)
  let word = text.length
  while (word > from && !PATH_DELIMITERS.test(text[word - 1]!)) word--
  const pathStart = text.indexOf('/', word)
  return pathStart > 0 ? pathStart : text.length
}

export function cutLine(line: string, maxLength: number): string {
  return line.length > maxLength ? `${line.slice(0, safeCutLength(line.slice(0, maxLength)))}…` : line
}

function resolveLinks(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
