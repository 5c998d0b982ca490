// What may leave this machine: texts without secrets and without its folders, and lines only once the secrets are
// known.
import { resolve } from 'node:path'
import type { Report } from '../../protocol/report.schema.ts'
import type { Work } from '../../protocol/work.schema.ts'
import type { RevisionRef } from '../engines/engine.ts'
import { cutMessage, openSecrets, type SecretAccess } from '../reconcile/work.ts'
import { createPathRedactor } from './redact-paths.ts'
import { SecretMasks } from './secret-masks.ts'

const UNKNOWN_SECRETS_MESSAGE =
  'This agent cannot open the secrets of this revision, so the reason is withheld, which may hold them: redeploy it.'

export class Redaction {
  readonly #masks: SecretMasks
  readonly #redactPaths: (redactText: string) => string
  /** Deployments of which the engine has said what they were given besides their secrets. */
  readonly #confirmed = new Set<string>()

  /** `folders` are where the agent keeps things. `always`: what no text may hold, whichever deployment it is about. */
  constructor(folders: string[], always: string[] = []) {
    const rename = [...new Set(folders)].map(folder => createPathRedactor(resolve(folder)))
    this.#redactPaths = text => rename.reduce((renamed, shown) => shown(renamed), text)
    this.#masks = new SecretMasks(always)
  }

  hide = (deployment_id: string, values: string[]) => this.#masks.addValues(deployment_id, values)

  learnSecrets(work: Work, opening: Pick<SecretAccess, 'keys' | 'listener'>): void {
    const { deployment_id } = work
    for (const revision of [work.revision, work.serving]) {
      if (!revision || this.#masks.hasRevision({ deployment_id, revision_id: revision.id })) continue
      try {
        const values = Object.values(openSecrets(work, revision, opening))
        this.#masks.addRevision({ deployment_id, revision_id: revision.id }, values)
      } catch {
        // Whoever builds or starts it is told why; until then it stays unknown, and so do its lines.
      }
    }
  }

  confirmEngineSecrets(deployment_id: string): void {
    this.#confirmed.add(deployment_id)
  }

  forget(deployment_id: string): void {
    this.#masks.forget(deployment_id)
    this.#confirmed.delete(deployment_id)
  }

  /** Whether lines of a revision may leave. Null: they never may. `complete`: all that is wanted was told. */
  areSecretsKnown(of: RevisionRef, complete: boolean): boolean | null {
    if (this.#masks.hasRevision(of)) return this.#confirmed.has(of.deployment_id)
    return complete ? null : false
  }

  text(deployment_id: string, text: string): string {
    return this.#redactPaths(this.#masks.mask(deployment_id, text))
  }

  /** Cut only now: half of a secret would not be known for what it is. */
  redactReport<R extends Report>(report: R): R {
    const { deployment_id, revision_id, message } = report
    if (!message) return report
    const known = !revision_id || this.#masks.hasRevision({ deployment_id, revision_id })
    return { ...report, message: known ? cutMessage(this.text(deployment_id, message)) : UNKNOWN_SECRETS_MESSAGE }
  }
}
