// How requests reach a deployment: its Service, which one revision answers at a time, and the ways in from outside. Pure.
import type { KubernetesObject, V1Ingress, V1Service } from '@kubernetes/client-node'
import { PermanentError, type RevisionSpec } from '../engine.ts'
import { baseName, metadataOf, namespaceOf, selectorLabels, URL_ANNOTATION } from './names.ts'
import type { KubernetesSettings } from './settings.ts'

const SERVICE_PORT = 80

/** Its selector is the switch: from one apply to the next, another revision's pods get the requests. */
export function serviceOf(settings: KubernetesSettings, unit: RevisionSpec): V1Service {
  const metadata = metadataOf(settings, unit, baseName(unit), { component: 'web' })
  const annotations = { ...metadata.annotations, [URL_ANNOTATION]: urlOf(settings, unit) }
  return {
    ...{ apiVersion: 'v1', kind: 'Service', metadata: { ...metadata, annotations } },
    spec: {
      type: 'ClusterIP',
      selector: selectorLabels(settings, unit, 'web'),
      ports: [{ name: 'http', port: SERVICE_PORT, targetPort: 'http', protocol: 'TCP' }],
    },
  }
}

type RouteEntry = { name: string; host: string; path: string; tls: string | true | null }

function routeEntriesOf(settings: KubernetesSettings, unit: RevisionSpec): RouteEntry[] {
  const ways: RouteEntry[] = []
  const base = baseName(unit)
  if (settings.domain !== null) {
    const own = settings.tls === 'on' ? true : settings.tls === 'off' ? null : settings.tls.slice('secret:'.length)
    ways.push({ name: base, host: `${base}.${settings.domain}`, path: '/', tls: own })
  }
  const custom = customUrlOf(unit)
  if (custom) {
    if (isGeneratedHost(custom.hostname, settings) && custom.hostname !== `${base}.${settings.domain}`)
      throw new PermanentError(`The host ${custom.hostname} is one that this agent gives: choose another custom_url.`)
    const tls = custom.protocol === 'https:' ? `${base}-custom-tls` : null
    ways.push({ name: `${base}-custom`, host: custom.hostname, path: custom.pathname, tls })
  }
  return ways
}
/** The hosts of an Ingress or HTTPRoute. */
export function hostsOf(route: KubernetesObject): string[] {
  const { rules, hostnames = [] } = (route as { spec: { rules?: { host?: string }[]; hostnames?: string[] } }).spec
  return [...hostnames, ...(rules ?? []).flatMap(({ host }) => host ?? [])]
}

/** Below its domain the agent names each deployment: nobody takes another one's requests, or those of one to come. */
const isGeneratedHost = (host: string, { domain }: KubernetesSettings) =>
  host.endsWith(`.${domain}`) && /-[0-9a-f]{10}$/.test(host.slice(0, -`.${domain}`.length))

/** A host alone is one that https is spoken with. */
function customUrlOf({ custom_url }: Pick<RevisionSpec, 'custom_url'>): URL | null {
  if (custom_url === null) return null
  const url = URL.parse(/^https?:\/\//.test(custom_url) ? custom_url : `https://${custom_url}`)
  return url?.hostname ? url : null
}

export function routesOf(settings: KubernetesSettings, unit: RevisionSpec): KubernetesObject[] {
  if (settings.routes === 'none') return []
  return routeEntriesOf(settings, unit).map(way =>
    settings.routes === 'ingress' ? ingressOf(settings, unit, way) : httpRouteOf(settings, unit, way),
  )
}

function ingressOf(settings: KubernetesSettings, unit: RevisionSpec, { name, host, path, tls }: RouteEntry): V1Ingress {
  return {
    ...{ apiVersion: 'networking.k8s.io/v1', kind: 'Ingress' },
    metadata: metadataOf(settings, unit, name, { component: 'web' }),
    spec: {
      ...(settings.ingress_class !== null && { ingressClassName: settings.ingress_class }),
      // Without a secret, the controller's own certificate is used.
      ...(tls !== null && { tls: [{ hosts: [host], ...(tls !== true && { secretName: tls }) }] }),
      rules: [
        {
          host,
          http: {
            paths: [
              {
                ...{ path, pathType: 'Prefix' },
                backend: { service: { name: baseName(unit), port: { name: 'http' } } },
              },
            ],
          },
        },
      ],
    },
  }
}

/** Of the Gateway API, whose types the client does not have. TLS is the gateway's own. */
function httpRouteOf(
  settings: KubernetesSettings,
  unit: RevisionSpec,
  { name, host, path }: RouteEntry,
): KubernetesObject {
  const [namespace, gateway, sectionName] = settings.gateway!
  const spec = {
    parentRefs: [{ namespace, name: gateway, ...(sectionName !== undefined && { sectionName }) }],
    hostnames: [host],
    rules: [
      {
        matches: [{ path: { type: 'PathPrefix', value: path } }],
        backendRefs: [{ name: baseName(unit), port: SERVICE_PORT }],
      },
    ],
  }
  const metadata = metadataOf(settings, unit, name, { component: 'web' })
  return { apiVersion: 'gateway.networking.k8s.io/v1', kind: 'HTTPRoute', metadata, spec } as KubernetesObject
}

/** Where it answers: what was asked for, what the operator's domain makes of its name, or inside the cluster. */
export function urlOf(settings: KubernetesSettings, unit: RevisionSpec): string {
  const base = baseName(unit)
  if (settings.routes !== 'none') {
    const custom = customUrlOf(unit)
    if (custom) return custom.href.replace(/\/$/, '')
    if (settings.domain !== null) return `${settings.tls === 'off' ? 'http' : 'https'}://${base}.${settings.domain}`
  }
  return `http://${base}.${namespaceOf(settings, unit)}.svc`
}
