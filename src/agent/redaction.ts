// What may leave this machine: texts without secrets and without its folders, and lines only once the secrets are
// known.
import { resolve } from 'node:path'
import type { Report } from '../sync/report.schema.ts'
import type { Work } from '../sync/work.schema.ts'
import type { Ref } from './engines/engine.ts'
import { Masks } from './masks.ts'
import { shownFrom } from './places.ts'
import { cut, type Opening, openSecrets } from './work.ts'

const UNKNOWN_SECRETS =
  'This agent cannot open the secrets of this revision, so the reason is withheld, which may hold them: redeploy it.'

export class Redaction {
  readonly #masks: Masks
  readonly #shown: (text: string) => string
  /** Deployments of which the engine has said what they were given besides their secrets. */
  readonly #settled = new Set<string>()

  /** `folders` are where the agent keeps things. `always`: what no text may hold, whichever deployment it is about. */
  constructor(folders: string[], always: string[] = []) {
    const rename = [...new Set(folders)].map(folder => shownFrom(resolve(folder)))
    this.#shown = text => rename.reduce((renamed, shown) => shown(renamed), text)
    this.#masks = new Masks(always)
  }

  hide = (deployment_id: string, values: string[]) => this.#masks.learn(deployment_id, values)

  learn(work: Work, opening: Pick<Opening, 'keys' | 'listener'>): void {
    const { deployment_id } = work
    for (const revision of [work.revision, work.serving]) {
      if (!revision || this.#masks.knows({ deployment_id, revision_id: revision.id })) continue
      try {
        const values = Object.values(openSecrets(work, revision, opening))
        this.#masks.learnRevision({ deployment_id, revision_id: revision.id }, values)
      } catch {
        // Whoever builds or starts it is told why; until then it stays unknown, and so do its lines.
      }
    }
  }

  settle(deployment_id: string): void {
    this.#settled.add(deployment_id)
  }

  forget(deployment_id: string): void {
    this.#masks.forget(deployment_id)
    this.#settled.delete(deployment_id)
  }

  /** Whether lines of a revision may leave. Null: they never may. `complete`: all that is wanted was told. */
  knows(of: Ref, complete: boolean): boolean | null {
    if (this.#masks.knows(of)) return this.#settled.has(of.deployment_id)
    return complete ? null : false
  }

  text(deployment_id: string, text: string): string {
    return this.#shown(this.#masks.mask(deployment_id, text))
  }

  /** Cut only now: half of a secret would not be known for what it is. */
  report<R extends Report>(report: R): R {
    const { deployment_id, revision_id, message } = report
    if (!message) return report
    const known = !revision_id || this.#masks.knows({ deployment_id, revision_id })
    return { ...report, message: known ? cut(this.text(deployment_id, message)) : UNKNOWN_SECRETS }
  }
}
