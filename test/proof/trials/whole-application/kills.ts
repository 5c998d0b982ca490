// Finds what can be killed: the agent, its router, the database, Redis, and single processes of the application.
import { readFileSync, readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { COMPONENT_LABEL, DEPLOYMENT_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import { listPids } from '../../../../src/agent/system/processes.ts'
import type { Podman } from '../../../support/podman.ts'
import type { Objects } from '../cluster/objects.ts'
import type { PodRunner } from '../cluster/run-pods.ts'
import type { Installation } from './installation.ts'

export type Victim = { name: string; kill(): unknown }
/** Each returns those that run now. */
export type Victims = Record<'agent' | 'router' | 'database' | 'redis' | 'application', () => Promise<Victim[]>>

/** The kinds of ten kills. */
const SHARES: (keyof Victims)[] = [
  'agent',
  'agent',
  'database',
  'redis',
  'router',
  'application',
  'application',
  'application',
  'application',
  'application',
]

/** Kills one, and returns its name. */
export async function killOne(victims: Victims, random: () => number): Promise<string> {
  const pick = <T>(list: T[]): T | undefined => list[Math.floor(random() * list.length)]
  const kind = pick(SHARES)!
  const found = await victims[kind]()
  const victim = pick(found) ?? pick(await victims.application())
  if (!victim) return 'nothing, as nothing ran'
  await victim.kill()
  return victim.name
}

type Seen = { pid: number; args: string[]; env: Record<string, string>; cwd: string }

function lookAt(pid: number): Seen | undefined {
  try {
    const words = (name: string) => readFileSync(`/proc/${pid}/${name}`, 'utf8').split('\0').filter(Boolean)
    const env = Object.fromEntries(words('environ').map(line => line.split(/=(.*)/s).slice(0, 2)))
    return { pid, args: words('cmdline'), env, cwd: readlinkSync(`/proc/${pid}/cwd`) }
  } catch {
    return undefined
  }
}

const killProcess = (pid: number) => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}

const findAgent = (installation: Installation, random: () => number): Victim[] =>
  installation.isAgentRunning()
    ? [{ name: 'the agent', kill: () => installation.killAgent(random() < 0.5 ? 0 : 3000 * random()) }]
    : []

export function findProcesses(installation: Installation, deployment_id: string, random: () => number): Victims {
  const find = async (isOne: (seen: Seen) => string | false | undefined): Promise<Victim[]> =>
    listPids().flatMap(pid => {
      const seen = lookAt(pid)
      const name = seen && isOne(seen)
      return name ? [{ name: `${name} (${pid})`, kill: () => killProcess(pid) }] : []
    })
  const isHere = ({ args, cwd }: Seen) => [cwd, ...args].some(text => text.includes(installation.agentHome))
  return {
    agent: async () => findAgent(installation, random),
    router: () => find(seen => isHere(seen) && seen.args[1]?.endsWith('router-main.ts') && 'the router'),
    // Its other processes have a title in place of arguments.
    database: () =>
      find(
        seen => isHere(seen) && basename(seen.args[0] ?? '') === 'postgres' && seen.args[1] === '-D' && 'the database',
      ),
    redis: () => find(seen => /(?:redis|valkey)-server/.test(seen.args[0] ?? '') && isHere(seen) && 'Redis'),
    application: () =>
      find(
        ({ env, args }) =>
          env.SLIPWAY_DEPLOYMENT_ID === deployment_id &&
          `${env.SLIPWAY_ROLE}: ${args
            .slice(0, 4)
            .map(path => basename(path))
            .join(' ')}`,
      ),
  }
}

/** Reads the output of `podman top`: a line of names, and one for each process, first that of the container. */
function readProcesses(text: string, nameOf: (command: string) => string): Victim[] {
  const lines = text.split('\n').slice(1).filter(Boolean)
  return lines.map(line => {
    const [pid = '', ...command] = line.trim().split(/\s+/)
    return { name: `${nameOf(command.slice(0, 4).join(' '))} (${pid})`, kill: () => killProcess(Number(pid)) }
  })
}

/** Stores and processes of the application are containers, whose processes are killed from outside. */
export function findContainers(
  installation: Installation,
  deployment_id: string,
  podman: Podman,
  random: () => number,
): Victims {
  async function find(filters: string[], nameOf: (type: string, command: string) => string): Promise<Victim[]> {
    const all = [`label=slipway.deployment=${deployment_id}`, ...filters].flatMap(filter => ['--filter', filter])
    const format = '{{.ID}} {{index .Labels "slipway.process"}}'
    const lines = (await podman.podman('ps', '--format', format, ...all)).split('\n').filter(Boolean)
    const line = lines[Math.floor(random() * lines.length)]
    if (line === undefined) return []
    const [id = '', type = ''] = line.split(' ')
    const processes = await podman.podman('top', id, 'hpid', 'args').catch(() => '')
    return readProcesses(processes, command => nameOf(type, command))
  }
  return {
    ...findProcesses(installation, deployment_id, random),
    database: async () => (await find(['label=slipway.part=database'], () => 'the database')).slice(0, 1),
    redis: async () => (await find(['label=slipway.part=redis'], () => 'Redis')).slice(0, 1),
    application: () => find(['label=slipway.copy'], (type, command) => `${type || 'web'}: ${command}`),
  }
}

/** No router of ours is in a cluster: a pod is evicted in its place. Dumps are no part of the application. */
export function findPods(
  installation: Installation,
  deployment_id: string,
  { runner, cluster }: { runner: PodRunner; cluster: Objects },
  random: () => number,
): Victims {
  const pick = (isOne: (component: string) => boolean) => {
    const all = runner
      .listContainers({ [DEPLOYMENT_LABEL]: deployment_id })
      .map(found => ({ ...found, component: found.pod.metadata!.labels![COMPONENT_LABEL]! }))
      .filter(({ component }) => isOne(component))
    return all[Math.floor(random() * all.length)]
  }
  const isApplication = (component: string) => !['database', 'redis', 'dumps'].includes(component)
  async function find(isOne: (component: string) => boolean): Promise<Victim[]> {
    const found = pick(isOne)
    if (!found) return []
    const processes = await runner.listProcesses(found).catch(() => '')
    return readProcesses(processes, command => `${found.component}: ${command}`)
  }
  return {
    agent: async () => findAgent(installation, random),
    router: async () => {
      const found = pick(component => isApplication(component) && component !== 'run')
      if (!found) return []
      const { name, namespace } = found.pod.metadata!
      const kill = () =>
        cluster.delete({ apiVersion: 'v1', kind: 'Pod', metadata: { name: name!, namespace: namespace! } })
      return [{ name: `the whole pod of ${found.component}`, kill }]
    },
    database: async () => (await find(component => component === 'database')).slice(0, 1),
    redis: async () => (await find(component => component === 'redis')).slice(0, 1),
    application: () => find(isApplication),
  }
}
