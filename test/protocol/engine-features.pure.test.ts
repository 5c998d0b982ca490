// The declared features of engines, against the page and against what containers and Kubernetes make of it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { replicaParts } from '../../src/agent/engines/container/replica-spec.ts'
import { storeRequestsOf } from '../../src/agent/engines/container/store-specs.ts'
import { findUnsupported } from '../../src/agent/engines/container/unsupported-features.ts'
import { otherObjects, revisionObjects } from '../../src/agent/engines/kubernetes/revision-objects.ts'
import { storesFor } from '../../src/agent/engines/kubernetes/store-objects.ts'
import { movingOf, scalingOf } from '../../src/agent/engines/local/scaling-of.ts'
import { processTypesOf } from '../../src/agent/engines/process-types.ts'
import {
  ENGINE_FEATURES,
  engineNames,
  type FeatureName,
  featureNames,
  listFeatureNeeds,
  UNENFORCED,
} from '../../src/protocol/engine-features.ts'
import {
  hasDatabase,
  partsOf,
  type ResourceSpec,
  withDefaults,
  withScaleMetric,
} from '../../src/protocol/resources.schema.ts'
import { makeArtifact, makeKubernetesSettings, makeKubernetesUnit } from '../support/kubernetes-fixtures.ts'
import { makeUnit } from '../support/process-engine.ts'

const PAGE = join(import.meta.dirname, '../../docs/reference/engines.md')
const WORDS = { done: 'done', machine: 'done where the machine has it', refused: 'refused' }

it('the page has the table', () => {
  const rows = featureNames.map(name => {
    const { about, ...verdicts } = ENGINE_FEATURES[name]
    return `| ${about} | ${engineNames.map(engine => WORDS[verdicts[engine]]).join(' | ')} |`
  })
  const unenforced = engineNames.map(engine => UNENFORCED[engine].map(name => `\`${name}\``).join(', ') || '–')
  rows.push(`| accepted without effect, with a warning in the plan | ${unenforced.join(' | ')} |`)
  const table = readFileSync(PAGE, 'utf8')
    .split('\n')
    .filter(line => line.startsWith('| '))
  expect(table.slice(1)).toEqual(rows)
})

const emptyVolume = { name: 'v', emptyDir: {} }
const container = { name: 'side', image: 'side:1' }
/** Resources without the feature, and what asks for it. */
const CASES: Partial<Record<FeatureName, [without: ResourceSpec, asking: ResourceSpec]>> = {
  autoscaling: [{ min_scale: 2, max_scale: 2, scale_metric: 'cpu' }, { max_scale: 4 }],
  request_scaling: [{ min_scale: 1, max_scale: 4 }, { scale_metric: 'requests' }],
  part_autoscaling: [{ queue_min_scale: 1 }, { queue_max_scale: 4 }],
  process_scaling: [
    { queue_cpu: 1 },
    { process_scaling: { queue: { min_scale: 2, max_scale: 4, scale_metric: 'memory' } } },
  ],
  queue_scaling: [{ min_scale: 1, max_scale: 4 }, { scale_metric: 'queue' }],
  sleep: [{ min_scale: 0 }, { idle_seconds: 60 }],
  queue: [{}, { queue_min_scale: 1 }],
  orchestrator: [{}, { orchestrator_cpu: 1 }],
  executor: [{}, { executor_memory_mb: 64 }],
  database: [{}, { db_max_connections: 3 }],
  redis: [{}, { redis_memory_mb: 64 }],
  disks: [{}, { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }] }],
  scratch_volumes: [{}, { volumes: [emptyVolume] }],
  cluster_volumes: [{}, { volumes: [{ name: 'v', configMap: { name: 'c' } }] }],
  sub_paths: [{ volumes: [emptyVolume] }, { volume_mounts: [{ name: 'v', mountPath: '/v', subPath: 's' }] }],
  init_containers: [{}, { init_containers: [container] }],
  sidecars: [{}, { sidecars: [container] }],
  labels: [{}, { labels: { team: 'a' } }],
  annotations: [{}, { annotations: { note: 'a' } }],
}

const artifact = { location: 'shop@sha256:1', start_command: null, health_path: null, env: {}, commit: null }
const placement = {
  owner: 'me',
  copy: 'c',
  port: 8000,
  images: {},
  tokenFolder: '/t',
  secret: () => '',
  secrets: () => ({}),
}
/** The objects that the engine makes of resources, as text; null if it refuses them. */
const MADE = {
  container: (spec: ResourceSpec) => {
    const unit = makeUnit({ deployment_id: 'd', revision_id: 'r' }, unitOf(spec))
    if (findUnsupported(unit) !== null) return null
    return JSON.stringify([
      replicaParts(unit, artifact, placement),
      // Without a way to move, one number for each type of the parts, whatever their most is.
      processTypesOf(unit, artifact).map(({ scaling, scale: [copies], ...type }) => [
        { ...type, copies },
        movingOf({ ...type, scaling, scale: [copies, copies] }, copies, 32),
      ]),
      scalingOf(unit.resources, 32, null),
      storeRequestsOf(unit),
    ])
  },
  kubernetes: (spec: ResourceSpec) => {
    const settings = makeKubernetesSettings()
    const unit = { ...makeKubernetesUnit(), ...unitOf(spec) }
    const [web, others] = [revisionObjects, otherObjects].map(make => make(settings, unit, makeArtifact()))
    return JSON.stringify([storesFor(settings, unit), web, others])
  },
}
const unitOf = (spec: ResourceSpec) => ({
  resources: withScaleMetric(spec, withDefaults(spec, 'dev')),
  parts: partsOf(spec),
  needs_database: hasDatabase(spec),
})

describe.each(['container', 'kubernetes'] as const)('the %s engine', engine => {
  it.each(Object.entries(CASES))('does with %s what it declares', (feature, [without, asking]) => {
    const asked = { ...without, ...asking }
    expect(listFeatureNeeds(asked).map(need => need.feature)).toContain(feature)
    const [before, after] = [MADE[engine](without), MADE[engine](asked)]
    const isDone = ENGINE_FEATURES[feature as FeatureName][engine] !== 'refused'
    if (isDone) expect(after).not.toBe(before)
    else expect([null, before]).toContain(after)
    if (isDone) expect(after).not.toBeNull()
  })
})
