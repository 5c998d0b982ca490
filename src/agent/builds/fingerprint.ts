// By what it is known that two builds are made of the same. Secrets are among it, so it is slow to guess from what is written down.
import { scrypt } from 'node:crypto'
import { promisify } from 'node:util'

export async function fingerprint(of: unknown[], salt: string): Promise<string> {
  return ((await promisify(scrypt)(JSON.stringify(of), salt, 32)) as Buffer).toString('hex')
}
