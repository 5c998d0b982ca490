// How folders of this machine are called to people: as an application sees its own in a container, and never where the agent keeps them.
import { realpathSync } from 'node:fs'

const LONGEST_PATH = 4096
const AROUND_PATHS = /[\s"'`()]/
const ID = '[0-9a-f-]{36}'
/** The most particular first. */
const NAMES: [place: string, name: string][] = [
  [`/builds/${ID}/${ID}/tree`, '/app'],
  [`/process/${ID}/revisions/${ID}/home`, '/home/app'],
  [`/process/${ID}/revisions/${ID}/tmp`, '/tmp'],
  [`/builds/${ID}/cache/home`, '/home/app'],
  [`/builds/${ID}/cache/tmp`, '/tmp'],
  [`/builds/${ID}/cache`, '/cache'],
  [`/builds/${ID}/source`, '/source'],
  ['', '/agent'],
]
/** A name that goes on is another one; a full stop may end a sentence. */
const END = '(?![\\w-]|\\.\\w)'

/** Of an agent that works in that folder. */
export function shownFrom(home: string): (text: string) => string {
  // What it is by another way, and how an address of a file has it.
  const ways = [home, real(home)].flatMap(path => [path, encodeURI(path)])
  const any = `(?:${[...new Set(ways)].map(quoted).join('|')})`
  const rules = NAMES.map(([place, name]) => [new RegExp(`${any}${place}${END}`, 'g'), name] as const)
  return text => rules.reduce((said, [place, name]) => said.replace(place, name), text)
}

/** How much of a text can be told before its rest is known: half of a path would not be known for what it is. */
function tellable(text: string): number {
  const from = Math.max(0, text.length - LONGEST_PATH)
  let word = text.length
  while (word > from && !AROUND_PATHS.test(text[word - 1]!)) word--
  const begun = text.indexOf('/', word)
  return begun > 0 ? begun : text.length
}

export function cutLine(line: string, longest: number): string {
  return line.length > longest ? `${line.slice(0, tellable(line.slice(0, longest)))}…` : line
}

function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}

const quoted = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
