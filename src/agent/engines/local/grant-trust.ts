// Keeps who signs the grants of people, so that an agent without its control plane can still verify them.
import type { GrantIssuer } from '../../../protocol/protection.schema.ts'
import { readJson, writeJson } from '../../system/files.ts'

export class GrantTrust {
  readonly #file: string
  #text: string | undefined

  constructor(file: string) {
    this.#file = file
  }

  read(): GrantIssuer | null {
    this.#text ??= JSON.stringify(readJson<GrantIssuer>(this.#file) ?? null)
    return JSON.parse(this.#text) as GrantIssuer | null
  }

  /** False if nothing changed. */
  store(issuer: GrantIssuer): boolean {
    this.read()
    if (JSON.stringify(issuer) === this.#text) return false
    writeJson(this.#file, issuer)
    this.#text = JSON.stringify(issuer)
    return true
  }
}
