// How folders of this machine are called to people: as an application sees its own in a container, and never where the agent keeps them.
import { realpathSync } from 'node:fs'

const MAX_PATH_LENGTH = 4096
const PATH_DELIMITERS = /[\s"'`()]/
const ID_PATTERN = '[0-9a-f-]{36}'
/** The most particular first. */
const FOLDER_NAMES: [place: string, name: string][] = [
  [`/builds/${ID_PATTERN}/${ID_PATTERN}/tree`, '/app'],
  [`/process/${ID_PATTERN}/revisions/${ID_PATTERN}/home`, '/home/app'],
  [`/process/${ID_PATTERN}/revisions/${ID_PATTERN}/tmp`, '/tmp'],
  [`/builds/${ID_PATTERN}/cache/home`, '/home/app'],
  [`/builds/${ID_PATTERN}/cache/tmp`, '/tmp'],
  [`/builds/${ID_PATTERN}/cache`, '/cache'],
  [`/builds/${ID_PATTERN}/source`, '/source'],
  ['', '/agent'],
]
/** A name that goes on is another one; a full stop may end a sentence. */
const NAME_END = '(?![\\w-]|\\.\\w)'

/** Of an agent that works in that folder. */
export function createPathRedactor(home: string): (text: string) => string {
  // What it is by another way, and how an address of a file has it.
  const ways = [home, resolveLinks(home)].flatMap(path => [path, encodeURI(path)])
  const any = `(?:${[...new Set(ways)].map(escapeRegExp).join('|')})`
  const rules = FOLDER_NAMES.map(([place, name]) => [new RegExp(`${any}${place}${NAME_END}`, 'g'), name] as const)
  return text => rules.reduce((said, [place, name]) => said.replace(place, name), text)
}

/** How much of a text can be told before its rest is known: half of a path would not be known for what it is. */
function safeCutLength(text: string): number {
  const from = Math.max(0, text.length - MAX_PATH_LENGTH)
  let word = text.length
  while (word > from && !PATH_DELIMITERS.test(text[word - 1]!)) word--
  const begun = text.indexOf('/', word)
  return begun > 0 ? begun : text.length
}

export function cutLine(line: string, longest: number): string {
  return line.length > longest ? `${line.slice(0, safeCutLength(line.slice(0, longest)))}…` : line
}

function resolveLinks(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

const escapeRegExp = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
