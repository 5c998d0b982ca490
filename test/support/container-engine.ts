// A container engine for one test, with the Podman of its file.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import {
  type Artifact,
  type EngineEvents,
  type EngineObservation,
  type LogLevel,
  NO_EVENTS,
  type RevisionRef,
  type RevisionSpec,
  type SourceTree,
} from '../../src/agent/engine.ts'
import { ContainerEngine, type ContainerOptions } from '../../src/agent/engines/container.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { type ResourceSpec, withDefaults } from '../../src/protocol/resources.schema.ts'
import { waitFor } from './commands.ts'
import type { Podman } from './podman.ts'
import { makeUnit as anyUnit, FAST_LIMITS, makeTempFolder } from './process-engine.ts'

/** The image's own command. Most tests put something before it. It handles TERM, so that stopping it is quick. */
export const SERVE_COMMAND = 'trap exit TERM; httpd -f -p $PORT -h /www & wait'
export const SIDECAR_COMMAND = 'trap exit TERM; sleep 1000 & wait'

export function setUpContainerEngines(podman: () => Podman) {
  let home = ''
  let owner = ''
  let started: ContainerEngine[] = []
  const findRevision = (observation: EngineObservation, { revision_id }: RevisionRef) =>
    observation.running.find(one => one.revision_id === revision_id)
  return {
    get home() {
      return home
    },
    get options(): ContainerOptions {
      const stores = { database: podman().image, redis: podman().image }
      const limits = { ...FAST_LIMITS, ready_ms: 20_000, disk_ms: 500 }
      return {
        home,
        owner,
        port: 0,
        socket: podman().socket,
        base_images: { all: null, of: {} },
        secrets: null,
        stores,
        limits,
      }
    },
    begin() {
      home = makeTempFolder()
      owner = randomUUID()
      started = []
    },
    async end() {
      const last = started.pop()
      for (const engine of started) await engine.close({ stop: false })
      for (const id of (await last?.deployments()) ?? []) await last!.remove(id)
      await last?.close({ stop: true })
      fs.rmSync(home, { recursive: true, force: true })
    },
    async open(limits: Partial<Limits> = {}, more: Partial<ContainerOptions> = {}, events: Partial<EngineEvents> = {}) {
      const engine = new ContainerEngine({ ...this.options, ...more, limits: { ...this.options.limits, ...limits } })
      const lines: string[] = []
      const log: EngineEvents['log'] = (_, message, level) => void lines.push(`${level} ${message}`)
      await engine.open({ ...NO_EVENTS, log, ...events })
      started.push(engine)
      return { engine, lines }
    },
    unit: (one: RevisionRef, spec: ResourceSpec = {}, more: Partial<RevisionSpec> = {}) =>
      anyUnit(one, {
        source: 'internal_container',
        image_uri: podman().image,
        ...more,
        resources: withDefaults({ memory_mb: 64, ...spec }, 'dev'),
      }),
    /** Runs a script instead of the image's own command. */
    artifact: (start_command: string, more: Partial<Artifact> = {}): Artifact => ({
      location: podman().image,
      start_command,
      health_path: null,
      env: {},
      commit: null,
      ...more,
    }),
    task: (log: (message: string, level?: LogLevel) => void = () => {}, signal = new AbortController().signal) => ({
      log,
      signal,
      cache: home,
      runningFolder: home,
    }),
    /** A source tree with these files. */
    tree(files: Record<string, string>, more: Partial<SourceTree> = {}): SourceTree {
      const folder = fs.mkdtempSync(`${home}/tree-`)
      for (const [name, text] of Object.entries(files)) fs.writeFileSync(`${folder}/${name}`, text)
      return {
        folder,
        commit: null,
        version: null,
        configuration_path: null,
        start_command: null,
        health_path: null,
        env: {},
        install_command: null,
        build_command: null,
        ...more,
      }
    },
    waitForPhase: (engine: ContainerEngine, one: RevisionRef, phase: string) =>
      waitFor(async () => {
        const revision = findRevision(await engine.observe(one.deployment_id), one)
        return revision?.phase === phase ? revision : undefined
      }),
    url: async (engine: ContainerEngine, { deployment_id }: RevisionRef) => (await engine.observe(deployment_id)).url!,
    /** Names and states of the containers of a deployment. */
    async listContainers({ deployment_id }: RevisionRef): Promise<string[]> {
      const filter = `label=slipway.deployment=${deployment_id}`
      const lines = await podman().podman('ps', '--all', '--format', '{{.Names}} {{.Status}}', '--filter', filter)
      return lines.split('\n').filter(Boolean)
    },
  }
}
