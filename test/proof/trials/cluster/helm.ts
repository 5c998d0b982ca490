// Helm of one major version, on the cluster of the trial.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { dumpYaml } from '@kubernetes/client-node'

export type HelmRun = { ok: boolean; output: string }
/** One line of `helm history`. */
export type Release = { revision: number; status: string; description: string }

export class Helm {
  readonly #program: string
  readonly #folder: string
  readonly #kubeconfig: string
  readonly namespace: string

  constructor(program: string, folder: string, kubeconfig: string, namespace: string) {
    this.#program = program
    this.#folder = folder
    this.#kubeconfig = kubeconfig
    this.namespace = namespace
    fs.mkdirSync(folder, { recursive: true })
  }

  run(...args: string[]): Promise<HelmRun> {
    const home = (name: string) => join(this.#folder, name)
    const env = {
      PATH: process.env.PATH,
      HOME: this.#folder,
      KUBECONFIG: this.#kubeconfig,
      HELM_CACHE_HOME: home('cache'),
      HELM_CONFIG_HOME: home('config'),
      HELM_DATA_HOME: home('data'),
    }
    return new Promise(resolve => {
      const all = ['--namespace', this.namespace, ...args]
      execFile(this.#program, all, { env, maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
        resolve({ ok: error === null, output: stdout + stderr }),
      )
    })
  }
  /** `install` or `upgrade` with these values, until everything is ready. */
  apply(action: 'install' | 'upgrade', release: string, chart: string, values: object, ...more: string[]) {
    const file = join(this.#folder, 'values.yaml')
    fs.writeFileSync(file, dumpYaml(values))
    return this.run(action, release, chart, '--values', file, '--wait', '--timeout', '180s', ...more)
  }
  async history(release: string): Promise<Release[]> {
    const { output } = await this.run('history', release, '--output', 'json')
    return JSON.parse(output)
  }
}
