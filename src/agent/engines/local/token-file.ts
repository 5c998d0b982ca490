// The file with the token of an application, in a folder that only the agent writes to.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { makeEnterable, type User } from '../../system/users.ts'
import { MODEL_TOKEN_FILE } from '../model-variables.ts'

/** Its reader: the user of a process, or all users of a container. The folder above admits no other user. */
export type TokenReader = { user: User | undefined } | 'container'

export function makeTokenFolder(folder: string, reader: TokenReader): void {
  makeEnterable(folder, reader === 'container' ? undefined : reader.user)
  if (reader === 'container') fs.chmodSync(folder, 0o755)
}

/** Replaces the file as a whole, so no reader sees half a token. */
export function writeTokenFile(folder: string, token: string, reader: TokenReader): void {
  const file = join(folder, MODEL_TOKEN_FILE)
  const temporary = `${file}.new`
  fs.rmSync(temporary, { force: true })
  fs.writeFileSync(temporary, token, { mode: 0o600, flag: 'wx' })
  if (reader !== 'container' && reader.user) fs.chownSync(temporary, reader.user.uid, reader.user.gid)
  fs.chmodSync(temporary, reader === 'container' ? 0o444 : 0o400)
  fs.renameSync(temporary, file)
}
