// Fingerprints the inputs of a build. They include secrets, so the hash is slow: it is stored on disk.
import { scrypt } from 'node:crypto'
import { promisify } from 'node:util'

export async function fingerprint(inputs: unknown[], salt: string): Promise<string> {
  return ((await promisify(scrypt)(JSON.stringify(inputs), salt, 32)) as Buffer).toString('hex')
}
