// The bill of materials of an image, in CycloneDX: its Debian packages, Node, npm packages as files, and the packages
// that are bundled into the dashboard. Made from what is packed, so it cannot name more or less than the image has.
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ImageFile } from './layer.ts'
import type { DebianPackage, NpmPackage, Platform } from './lock-packages.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

export const BILL_TYPE = 'application/vnd.cyclonedx+json'

type Hash = { alg: 'SHA-256' | 'SHA-512'; content: string }
export type Component = {
  type: 'library' | 'application'
  'bom-ref': string
  group?: string
  name: string
  version: string
  purl: string
  hashes?: Hash[]
  licenses?: { expression: string }[]
  properties?: { name: string; value: string }[]
}

const sha512Of = (integrity: string | undefined): Hash[] | undefined =>
  integrity?.startsWith('sha512-')
    ? [{ alg: 'SHA-512', content: Buffer.from(integrity.slice('sha512-'.length), 'base64').toString('hex') }]
    : undefined

export function describeDebianPackage({ name, version, sha256 }: DebianPackage, platform: Platform): Component {
  const versioned = `${encodeURIComponent(name)}@${encodeURIComponent(version)}`
  const purl = `pkg:deb/debian/${versioned}?arch=${platform}&distro=trixie`
  const hashes: Hash[] = [{ alg: 'SHA-256', content: sha256 }]
  return { type: 'library', 'bom-ref': purl, name, version, purl, hashes }
}

/** Scanners know Node by this name, not by that of the npm package that ships it. */
export function describeNode({ name, version, integrity }: NpmPackage): Component {
  return {
    type: 'application' as const,
    'bom-ref': 'node',
    name: 'node',
    version,
    purl: `pkg:generic/node@${version}`,
    hashes: sha512Of(integrity)!,
    licenses: [{ expression: 'MIT' }],
    properties: [{ name: 'slipway:npm-package', value: `${name}@${version}` }],
  }
}

type PackageJson = { name?: string; version?: string; license?: unknown }

function describeNpmPackage({ name = '', version = '', license }: PackageJson, integrity?: string): Component {
  const [group, ownName] = name.startsWith('@') ? name.split('/') : [undefined, name]
  const purl = `pkg:npm/${group ? `${encodeURIComponent(group)}/` : ''}${ownName}@${version}`
  const hashes = sha512Of(integrity)
  return {
    type: 'library' as const,
    'bom-ref': purl,
    ...(group && { group }),
    name: ownName!,
    version,
    purl,
    ...(hashes && { hashes }),
    ...(typeof license === 'string' && /^[\w.()+ -]+$/.test(license) && { licenses: [{ expression: license }] }),
  }
}

type PackageLock = { packages: Record<string, { integrity?: string }> }
const readPackageLock = (): PackageLock => JSON.parse(fs.readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))

/** Every package.json directly in a folder of node_modules. */
export function describeInstalledPackages(files: ImageFile[]): Component[] {
  const { packages } = readPackageLock()
  return files.flatMap(file => {
    const [, folder] = /((?:^|\/)node_modules\/(?:@[^/]+\/)?[^/]+)\/package\.json$/.exec(file.path) ?? []
    if (!folder || !('body' in file)) return []
    const path = file.path.slice(0, -'/package.json'.length).replace(/^app\//, '')
    return [describeNpmPackage(JSON.parse(Buffer.from(file.body).toString()), packages[path]?.integrity)]
  })
}

/** `folders` are those of node_modules whose modules a bundle has. */
export function describeBundledPackages(folders: string[]): Component[] {
  const { packages } = readPackageLock()
  return folders.map(folder => ({
    ...describeNpmPackage(
      JSON.parse(fs.readFileSync(join(ROOT, folder, 'package.json'), 'utf8')),
      packages[folder]?.integrity,
    ),
    properties: [{ name: 'slipway:bundled-into', value: 'app/dist/dashboard' }],
  }))
}

type Subject = { name: string; version: string; platform: Platform; digest: string; time: Date }

export function writeBillOfMaterials({ name, version, platform, digest, time }: Subject, all: Component[]): object {
  // Two packages may contain the same version of a third.
  const components = [...new Map(all.map(component => [component['bom-ref'], component])).values()].sort((a, b) =>
    a['bom-ref'] < b['bom-ref'] ? -1 : 1,
  )
  const purl = `pkg:oci/${name}@${encodeURIComponent(digest)}?arch=${platform}`
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuidOf(digest)}`,
    version: 1,
    metadata: {
      timestamp: time.toISOString(),
      component: { type: 'container', 'bom-ref': purl, name, version, purl },
    },
    components,
    dependencies: [{ ref: purl, dependsOn: components.map(component => component['bom-ref']) }],
  }
}

/** The same for the same image. */
function uuidOf(digest: string): string {
  const hex = createHash('sha256').update(digest).digest('hex')
  const variant = ((Number.parseInt(hex[16]!, 16) & 3) | 8).toString(16)
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    variant + hex.slice(17, 20),
    hex.slice(20, 32),
  ].join('-')
}
