// `npm start` and `slipway start`: serves the app on Node, from the bundle if that is current, else from the sources.
// It is JavaScript, because Node needs longer to load its first TypeScript file than to start.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { SourceMap } from 'node:module'
import './require-version.cjs'

const ROOT = new URL('../../', import.meta.url)
const BUNDLE = new URL('dist/server/node.mjs', ROOT)
const MAP = new URL('node.mjs.map', BUNDLE)
/** The sources of the bundle, and the hash of the lock of its packages. An image has none: its files do not change. */
const INPUTS = new URL('inputs.json', BUNDLE)

if (isCurrent()) {
  nameSources()
  await import(BUNDLE.href)
} else {
  await import('./require-node.cjs')
  await import('./node.ts')
}

function isCurrent() {
  const builtAt = modifiedAt(BUNDLE)
  if (builtAt === undefined) return false
  if (!existsSync(INPUTS)) return true
  const { sources, lock } = JSON.parse(readFileSync(INPUTS, 'utf8'))
  return sources.every(path => modifiedAt(new URL(path, ROOT)) <= builtAt) && lock === hashLock()
}

/** `npm prune` writes the same text again, so its time says nothing. */
function hashLock() {
  return createHash('sha256')
    .update(readFileSync(new URL('package-lock.json', ROOT)))
    .digest('hex')
}

function modifiedAt(url) {
  return statSync(url, { throwIfNoEntry: false })?.mtimeMs
}

/** Has stacks name the sources. The first stack reads the map; `--enable-source-maps` would do so at each start. */
function nameSources() {
  const place = new RegExp(`${BUNDLE.href.replace(/[^\w/]/g, '\\$&')}:(\\d+):(\\d+)`)
  let map
  const toSource = (text, line, column) => {
    map ??= readMap()
    const { fileName, lineNumber, columnNumber } = map.findOrigin(Number(line), Number(column))
    return fileName ? `${new URL(fileName, MAP).href}:${lineNumber}:${columnNumber}` : text
  }
  Error.prepareStackTrace = (error, frames) => {
    const lines = frames.map(frame => `    at ${String(frame).replace(place, toSource)}`)
    return [Error.prototype.toString.call(error), ...lines].join('\n')
  }
}

/** Without it, stacks name the bundle: an error must not be lost for its place. */
function readMap() {
  try {
    return new SourceMap(JSON.parse(readFileSync(MAP, 'utf8')))
  } catch {
    return { findOrigin: () => ({}) }
  }
}
