// Reads the files of a snapshot as one tar.
import { spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { Duplex, type Readable, Writable } from 'node:stream'
import { DEFAULT_PATH } from '../system/search-path.ts'

/** A disk is one already. What is written to it is dropped. */
export function openTar(folder: string): Duplex {
  const [first = '', ...others] = fs.readdirSync(folder)
  const isTar = first.endsWith('.tar') && others.length === 0
  const readable = isTar ? fs.createReadStream(join(folder, first)) : tarOf(folder)
  const both = Duplex.from({ readable, writable: new Writable({ write: (_, __, done) => done() }) })
  return both.once('end', () => both.end())
}

function tarOf(folder: string): Readable {
  const env = { PATH: DEFAULT_PATH, LANG: 'C.UTF-8' }
  const child = spawn('tar', ['-C', folder, '-cf', '-', '.'], { stdio: ['ignore', 'pipe', 'ignore'], env })
  const { stdout } = child
  child.once('error', error => stdout.destroy(error))
  child.once('exit', code => code !== 0 && stdout.destroy(new Error(`tar ended with code ${code}.`)))
  stdout.once('close', () => child.kill())
  return stdout
}
