// Builds the Service of a deployment and its routes from outside: an Ingress or an HTTPRoute for its host, for the name
// of a preview, for that of its commit, and for its custom URL. Pure.
import type { KubernetesObject, V1Ingress, V1Service } from '@kubernetes/client-node'
import { PermanentError, type RevisionSpec } from '../../engine.ts'
import { baseName, metadataOf, namespaceOf, selectorLabels, URL_ANNOTATION } from './names.ts'
import type { KubernetesSettings } from './settings.ts'

const SERVICE_PORT = 80

/** Its selector decides which revision receives the requests. */
export function serviceOf(settings: KubernetesSettings, spec: RevisionSpec): V1Service {
  const metadata = metadataOf(settings, spec, baseName(spec), { component: 'web' })
  const annotations = { ...metadata.annotations, [URL_ANNOTATION]: urlOf(settings, spec) }
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { ...metadata, annotations },
    spec: {
      type: 'ClusterIP',
      selector: selectorLabels(settings, spec, 'web'),
      ports: [{ name: 'http', port: SERVICE_PORT, targetPort: 'http', protocol: 'TCP' }],
    },
  }
}

/** A revision beside the routed one, with the weight of its Service of 100. */
export type Beside = { revision_id: string; share: number; isReady: boolean }
export const BESIDE = 'beside'
const besideName = (spec: RevisionSpec) => `${baseName(spec)}-${BESIDE}`

/** `spec` is the routed revision. */
export function besideServiceOf(settings: KubernetesSettings, spec: RevisionSpec, { revision_id }: Beside): V1Service {
  const service = serviceOf(settings, spec)
  return {
    ...service,
    metadata: metadataOf(settings, spec, besideName(spec), { component: BESIDE }),
    spec: { ...service.spec, selector: selectorLabels(settings, { ...spec, revision_id }, 'web') },
  }
}

/** `isOfRevision`: a split of the traffic does not change who answers. */
type RouteEntry = { name: string; hosts: string[]; path: string; tls: string | true | null; isOfRevision?: boolean }

/** Only labels of previews and commits have this, and no custom URL may. Without it, workspaces would share names. */
const LABEL_SEPARATOR = '--'
const labelsOf = ({ host_labels = [] }: RevisionSpec, of: string | null): string[] =>
  host_labels
    .filter(({ label, revision_id }) => label.includes(LABEL_SEPARATOR) && revision_id === of)
    .map(({ label }) => label)

function routeEntriesOf(settings: KubernetesSettings, spec: RevisionSpec): RouteEntry[] {
  const entries: RouteEntry[] = []
  const base = baseName(spec)
  if (settings.domain !== null) {
    const tls = settings.tls === 'on' ? true : settings.tls === 'off' ? null : settings.tls.slice('secret:'.length)
    entries.push({ name: base, hosts: [`${base}.${settings.domain}`], path: '/', tls })
    for (const [name, of] of [['preview', null] as const, ['commit', spec.revision_id] as const]) {
      const hosts = labelsOf(spec, of).map(label => `${label}.${settings.domain}`)
      if (hosts.length > 0) entries.push({ name: `${base}-${name}`, hosts, path: '/', tls, isOfRevision: of !== null })
    }
  }
  const custom = customUrlOf(spec)
  if (custom) {
    if (isGeneratedHost(custom.hostname, settings) && custom.hostname !== `${base}.${settings.domain}`)
      throw new PermanentError(`The host ${custom.hostname} is reserved for another deployment. Change custom_url.`)
    const tls = custom.protocol === 'https:' ? `${base}-custom-tls` : null
    entries.push({ name: `${base}-custom`, hosts: [custom.hostname], path: custom.pathname, tls })
  }
  return entries
}

export function hostsOf(route: KubernetesObject): string[] {
  const { rules, hostnames = [] } = (route as { spec: { rules?: { host?: string }[]; hostnames?: string[] } }).spec
  return [...hostnames, ...(rules ?? []).flatMap(({ host }) => host ?? [])]
}

/** Such a host is generated for another deployment or preview now, or may be later. */
function isGeneratedHost(host: string, { domain }: KubernetesSettings): boolean {
  const label = host.endsWith(`.${domain}`) ? host.slice(0, -`.${domain}`.length) : ''
  return /-[0-9a-f]{10}$/.test(label) || (label.includes(LABEL_SEPARATOR) && !label.includes('.'))
}

/** Without a scheme, https is assumed. */
function customUrlOf({ custom_url }: Pick<RevisionSpec, 'custom_url'>): URL | null {
  if (custom_url === null) return null
  const url = URL.parse(/^https?:\/\//.test(custom_url) ? custom_url : `https://${custom_url}`)
  return url?.hostname ? url : null
}

export function routesOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  beside: Beside | null = null,
): KubernetesObject[] {
  if (settings.routes === 'none') return []
  return routeEntriesOf(settings, spec).map(entry =>
    settings.routes === 'ingress'
      ? ingressOf(settings, spec, entry)
      : httpRouteOf(settings, spec, entry, entry.isOfRevision ? null : beside),
  )
}

function ingressOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  { name, hosts, path, tls }: RouteEntry,
): V1Ingress {
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    metadata: metadataOf(settings, spec, name, { component: 'web' }),
    spec: {
      ...(settings.ingress_class !== null && { ingressClassName: settings.ingress_class }),
      // Without a secret, the controller uses its own certificate.
      ...(tls !== null && { tls: [{ hosts, ...(tls !== true && { secretName: tls }) }] }),
      rules: hosts.map(host => ({
        host,
        http: {
          paths: [
            {
              path,
              pathType: 'Prefix',
              backend: { service: { name: baseName(spec), port: { name: 'http' } } },
            },
          ],
        },
      })),
    },
  }
}

/** The client has no types of the Gateway API. TLS is configured on the gateway. */
function httpRouteOf(
  settings: KubernetesSettings,
  spec: RevisionSpec,
  { name, hosts, path }: RouteEntry,
  beside: Beside | null,
): KubernetesObject {
  const [namespace, gateway, sectionName] = settings.gateway!
  const routeSpec = {
    parentRefs: [{ namespace, name: gateway, ...(sectionName !== undefined && { sectionName }) }],
    hostnames: hosts,
    rules: [
      {
        matches: [{ path: { type: 'PathPrefix', value: path } }],
        backendRefs: beside
          ? [
              { name: baseName(spec), port: SERVICE_PORT, weight: 100 - beside.share },
              { name: besideName(spec), port: SERVICE_PORT, weight: beside.share },
            ]
          : [{ name: baseName(spec), port: SERVICE_PORT }],
      },
    ],
  }
  const metadata = metadataOf(settings, spec, name, { component: 'web' })
  return {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'HTTPRoute',
    metadata,
    spec: routeSpec,
  } as KubernetesObject
}

/** The custom URL, else the host below the operator's domain, a preview's own, else the address inside the cluster. */
export function urlOf(settings: KubernetesSettings, spec: RevisionSpec): string {
  const base = baseName(spec)
  if (settings.routes !== 'none') {
    const custom = customUrlOf(spec)
    if (custom) return custom.href.replace(/\/$/, '')
    const own = spec.host_labels?.[0]?.label
    const label = own?.includes(LABEL_SEPARATOR) ? own : base
    if (settings.domain !== null) return `${settings.tls === 'off' ? 'http' : 'https'}://${label}.${settings.domain}`
  }
  return `http://${base}.${namespaceOf(settings, spec)}.svc`
}
