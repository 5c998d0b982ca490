// Members that open the restrictions of every container are told from those that only narrow them.
import { describe, expect, it } from 'vitest'
import { CLOSED_POLICY, describeRefusal, isAllowed, listPolicyNeeds } from '../../src/protocol/listener-policy.ts'
import { ResourceSpec } from '../../src/protocol/resources.schema.ts'

const listPaths = (spec: unknown) => listPolicyNeeds(ResourceSpec.parse(spec)).map(({ path }) => path)
const REMEDIES = { privileged: 'P', service_account: 'S', copies: 'C' }

const OPENING: [member: string, value: unknown][] = [
  ['privileged', true],
  ['privileged', 'true'],
  ['allowPrivilegeEscalation', true],
  ['capabilities', { add: ['NET_ADMIN'] }],
  ['capabilities', { drop: ['ALL'], add: ['SYS_ADMIN'] }],
  ['capabilities', { other: [] }],
  ['runAsUser', 0],
  ['runAsUser', -1],
  ['runAsUser', 'root'],
  ['runAsNonRoot', false],
  ['procMount', 'Unmasked'],
  ['seccompProfile', { type: 'Unconfined' }],
  ['seccompProfile', { type: 'Localhost', localhostProfile: 'open.json' }],
  ['appArmorProfile', { type: 'Unconfined' }],
  ['seLinuxOptions', { type: 'spc_t' }],
  ['windowsOptions', { hostProcess: true }],
  ['Privileged', true],
]
const NARROWING: [member: string, value: unknown][] = [
  ['privileged', false],
  ['privileged', null],
  ['allowPrivilegeEscalation', false],
  ['capabilities', { drop: ['ALL'], add: [] }],
  ['runAsUser', 1000],
  ['runAsGroup', 0],
  ['runAsNonRoot', true],
  ['readOnlyRootFilesystem', true],
  ['procMount', 'Default'],
  ['seccompProfile', { type: 'RuntimeDefault' }],
  ['appArmorProfile', { type: 'RuntimeDefault' }],
  ['seLinuxOptions', null],
]

describe.each(['init_containers', 'sidecars'])('a security context in %s', where => {
  const specOf = (member: string, value: unknown) => ({
    [where]: [
      { name: 'a', image: 'a' },
      { name: 'b', image: 'b', securityContext: { [member]: value } },
    ],
  })
  it.each(OPENING)('needs the operator for %s: %j', (member, value) => {
    expect(listPaths(specOf(member, value))).toEqual([`resource_spec.${where}.1.securityContext.${member}`])
  })
  it.each(NARROWING)('may narrow with %s: %j', (member, value) => {
    expect(listPaths(specOf(member, value))).toEqual([])
  })
})

it.each([
  [{ nfs: { server: 'x', path: '/' } }, 'nfs'],
  [{ csi: { driver: 'x' } }, 'csi'],
  [
    { projected: { sources: [{ secret: {} }, { serviceAccountToken: { path: 't' } }] } },
    'projected.sources.1.serviceAccountToken',
  ],
  [{ projected: { sources: [{ podCertificate: {} }] } }, 'projected.sources.0.podCertificate'],
])('a volume %j needs the operator', (volume, path) => {
  expect(listPaths({ volumes: [{ name: 'v', ...volume }] })).toEqual([`resource_spec.volumes.0.${path}`])
})

it('volumes of the namespace need no operator, and an account that is allowed has its token anyway', () => {
  const volumes = ['configMap', 'secret', 'emptyDir', 'persistentVolumeClaim', 'downwardAPI'].map((kind, i) => ({
    name: `v${i}`,
    [kind]: {},
  }))
  expect(listPaths({ volumes })).toEqual([])
  const projected = { sources: [{ configMap: {} }, { serviceAccountToken: { path: 't' } }, null] }
  const spec = { service_account_name: 'robot', volumes: [{ name: 'v', projected }] }
  expect(listPaths(spec)).toEqual(['resource_spec.service_account_name'])
})

it('a mount that reaches the node needs the operator', () => {
  const mount = { name: 'v', mountPath: '/v', mountPropagation: 'Bidirectional' }
  const spec = { volume_mounts: [mount], sidecars: [{ name: 'a', image: 'a', volumeMounts: [mount] }] }
  expect(listPaths(spec)).toEqual([
    'resource_spec.volume_mounts.0.mountPropagation',
    'resource_spec.sidecars.0.volumeMounts.0.mountPropagation',
  ])
})

it.each([
  ['container.apparmor.security.beta.kubernetes.io/app', 1],
  ['nginx.ingress.kubernetes.io/configuration-snippet', 1],
  ['external-dns.alpha.kubernetes.io/hostname', 1],
  ['eks.amazonaws.com/role-arn', 1],
  ['iam.gke.io/gcp-service-account', 1],
  ['sidecar.istio.io/userVolume', 1],
  ['k8s.v1.cni.cncf.io/networks', 1],
  ['multicluster.x-k8s.io/service-name', 1],
  ['config.linkerd.io/init-image', 1],
  ['istio.io/dataplane-mode', 1],
  ['azure.workload.identity/use', 1],
  ['nginx.org/server-snippets', 1],
  ['cni.projectcalico.org/ipAddrsNoIpam', 1],
  ['replicator.v1.mittwald.de/replicate-from', 1],
  ['ad.datadoghq.com/app.checks', 1],
  ['autoscaling.keda.sh/paused-replicas', 1],
  ['io.kubernetes.cri-o.Devices', 1],
  ['io.kubernetes.cri-o.devices/app', 1],
  ['io.katacontainers.config.hypervisor.path', 1],
  ['dev.gvisor.spec.mount.x.source', 1],
  ['io.containers.autoupdate', 1],
  ['traefik.http.routers.x.rule', 1],
  ['caddy_0.reverse_proxy', 1],
  ['caddy', 1],
  ['ofelia.job-local.x.command', 1],
  ['tags.datadoghq.com/service', 0],
  ['caddyshack', 0],
  ['app.kubernetes.io/team', 0],
  ['cluster-autoscaler.kubernetes.io/safe-to-evict', 0],
  ['prometheus.io/scrape', 0],
  ['notkubernetes.io/x', 0],
  ['note', 0],
])('a label and an annotation %s need the operator: %i', (key, count) => {
  for (const where of ['labels', 'annotations'])
    expect(listPaths({ [where]: { [key]: 'x' } })).toEqual(count === 0 ? [] : [`resource_spec.${where}.${key}`])
})

it('a refusal names every path, with the remedy of each kind', () => {
  const spec = ResourceSpec.parse({
    service_account_name: 'robot',
    min_scale: 4,
    max_scale: 4,
    annotations: { 'eks.amazonaws.com/role-arn': 'x' },
    sidecars: [{ name: 'a', image: 'a', securityContext: { privileged: true } }],
  })
  const refusal = describeRefusal(spec, { ...CLOSED_POLICY, max_copies: 3 }, REMEDIES)!
  for (const { path } of listPolicyNeeds(spec)) expect(refusal).toContain(`\`${path}\``)
  for (const remedy of ['. P', '. S', '. C']) expect(refusal).toContain(remedy)
  const open = { privileged: true, service_accounts: ['robot'], max_copies: 4 }
  expect(describeRefusal(spec, open, REMEDIES)).toBeNull()
  expect(listPolicyNeeds(spec).every(need => isAllowed(need, { ...open, max_copies: null }))).toBe(true)
})

it('the size of a disk has a limit, and a size that is not said has none', () => {
  const claim = (name: string, more = {}) => ({ name, persistentVolumeClaim: { claimName: name, ...more } })
  const spec = ResourceSpec.parse({ volumes: [claim('a'), claim('b', { storage_gi: 9 }), { name: 'c', emptyDir: {} }] })
  const path = 'resource_spec.volumes.1.persistentVolumeClaim.storage_gi'
  expect(listPolicyNeeds(spec)).toEqual([{ path, needs: 'disk_size', value: 9 }])
  const refusal = (max_disk_gi: number | null) => describeRefusal(spec, { ...CLOSED_POLICY, max_disk_gi }, REMEDIES)
  expect([refusal(9), refusal(null)]).toEqual([null, null])
  expect(refusal(8)).toContain(path)
})

it('the copies of all processes count together', () => {
  const mail = { min_scale: 1, max_scale: 9, scale_metric: 'queue' }
  const spec = ResourceSpec.parse({ min_scale: 2, process_scale: { worker: 2 }, process_scaling: { mail } })
  const refusedAt = (max_copies: number) =>
    listPolicyNeeds(spec)
      .filter(need => !isAllowed(need, { ...CLOSED_POLICY, max_copies }))
      .map(({ path }) => path.split('.').at(-1))
  expect([5, 4, 3, 1].map(refusedAt)).toEqual([[], ['mail'], ['worker', 'mail'], ['min_scale', 'worker', 'mail']])
  // Sent one after the other, only the one that moves acts.
  const both = { ...spec, process_scale: { mail: 2, worker: 2 } }
  expect(listPolicyNeeds(both)).toEqual(listPolicyNeeds(spec))
})
