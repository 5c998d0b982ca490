// Short names for folders whose programs open sockets in them: the path of a socket has at most 103 bytes on macOS and
// 107 on Linux, and the folders of a revision have two ids in theirs.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { makePassable } from '../../system/users.ts'

export class ShortNames {
  readonly #links: string

  constructor(home: string) {
    this.#links = join(home, 'links')
  }

  /** A link to a folder that exists, always the same. Windows has no such sockets. */
  of(folder: string): string {
    if (process.platform === 'win32') return folder
    const link = join(this.#links, createHash('sha256').update(folder).digest('hex').slice(0, 12))
    if (targetOf(link) === folder) return link
    makePassable(this.#links)
    this.#sweep()
    fs.rmSync(link, { force: true })
    fs.symlinkSync(folder, link)
    return link
  }

  /** Removes the links to folders that are gone. */
  #sweep(): void {
    for (const name of fs.readdirSync(this.#links)) {
      const link = join(this.#links, name)
      if (!fs.existsSync(link)) fs.rmSync(link, { force: true })
    }
  }
}

function targetOf(link: string): string | undefined {
  try {
    return fs.readlinkSync(link)
  } catch {
    return undefined
  }
}
