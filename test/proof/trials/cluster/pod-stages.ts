// The stages of kwok for the pods of the trial: its own, and those that an annotation of the pod asks for.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { dumpYaml } from '@kubernetes/client-node'
import { RUN_LABEL, TASK_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'

/** On a pod, what becomes of it; without it, the pod becomes ready. */
export const OUTCOME = 'slipway-trial/outcome'
export const LOG_LINE = 'listening on 8000'

const STATES = {
  'invalid-image': {
    phase: 'Pending',
    state: { waiting: { reason: 'InvalidImageName', message: 'couldn’t parse image name: invalid reference format' } },
    restarts: 0,
  },
  'missing-image': {
    phase: 'Pending',
    state: { waiting: { reason: 'ImagePullBackOff', message: 'Back-off pulling image: manifest unknown' } },
    restarts: 0,
  },
  crash: {
    phase: 'Running',
    state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off 2m40s restarting failed container' } },
    restarts: 5,
    lastState: { terminated: { exitCode: 3, reason: 'Error' } },
  },
} as const
export type Outcome = keyof typeof STATES

const stageOf = (outcome: Outcome) => {
  const { phase, restarts, state, ...more } = STATES[outcome]
  const last = 'lastState' in more ? `\n  lastState: ${JSON.stringify(more.lastState)}` : ''
  return {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'Stage',
    metadata: { name: outcome },
    spec: {
      resourceRef: { apiGroup: 'v1', kind: 'Pod' },
      selector: {
        matchExpressions: [
          { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' },
          { key: `.metadata.annotations["${OUTCOME}"]`, operator: 'In', values: [outcome] },
        ],
      },
      // It wins over the stage that makes pods ready, which has no weight. Repeated, it changes nothing.
      weight: 1,
      next: {
        statusTemplate: `{{ $since := or .status.startTime Now }}
phase: ${phase}
startTime: {{ $since | Quote }}
conditions:
- { type: Ready, status: "False", lastTransitionTime: {{ $since | Quote }} }
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  restartCount: ${restarts}
  state: ${JSON.stringify(state)}${last}
{{ end }}
`,
      },
    },
  }
}

/** Pods of commands that run once run until the trial ends them, and those of dumps end at once. */
const stageOfJobs = (name: string, label: string, labelValues: string[], phase: string, state: object) => ({
  apiVersion: 'kwok.x-k8s.io/v1alpha1',
  kind: 'Stage',
  metadata: { name },
  spec: {
    resourceRef: { apiGroup: 'v1', kind: 'Pod' },
    selector: {
      matchExpressions: [
        { key: '.metadata.deletionTimestamp', operator: 'DoesNotExist' },
        { key: '.status.phase', operator: 'In', values: ['Pending', 'Running'] },
        labelValues.length > 0
          ? { key: `.metadata.labels["${label}"]`, operator: 'In', values: labelValues }
          : { key: `.metadata.labels["${label}"]`, operator: 'Exists' },
      ],
    },
    weight: 1,
    next: {
      statusTemplate: `{{ $since := or .status.startTime Now }}
phase: ${phase}
startTime: {{ $since | Quote }}
containerStatuses:
{{ range .spec.containers }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: ""
  ready: false
  restartCount: 0
  state: ${JSON.stringify(state).replaceAll('"SINCE"', '{{ $since | Quote }}')}
{{ end }}
`,
    },
  },
})
const ENDED = { exitCode: 0, reason: 'Completed', message: 'size_bytes 4096', startedAt: 'SINCE', finishedAt: 'SINCE' }
const JOB_STAGES = [
  stageOfJobs('run', RUN_LABEL, [], 'Running', { running: { startedAt: 'SINCE' } }),
  stageOfJobs('dump', TASK_LABEL, ['dump', 'restore', 'prune'], 'Succeeded', { terminated: ENDED }),
]

const findLog = (folder: string) => join(folder, 'pod.log')

/** Every container writes the same log. */
export function writeLogLine(folder: string): void {
  fs.appendFileSync(findLog(folder), `${new Date().toISOString().replace('Z', '000000Z')} stdout F ${LOG_LINE}\n`)
}

/** Returns the configuration file of kwok. */
export function writeStages(defaults: string, folder: string): string {
  const log = findLog(folder)
  writeLogLine(folder)
  const logs = {
    apiVersion: 'kwok.x-k8s.io/v1alpha1',
    kind: 'ClusterLogs',
    metadata: { name: 'logs' },
    spec: { logs: [{ logsFile: log, previousLogsFile: log, follow: true }] },
  }
  const own = [...(Object.keys(STATES) as Outcome[]).map(stageOf), ...JOB_STAGES, logs]
  const file = join(folder, 'stages.yaml')
  fs.writeFileSync(file, [fs.readFileSync(defaults, 'utf8'), ...own.map(one => dumpYaml(one))].join('\n---\n'))
  return file
}
