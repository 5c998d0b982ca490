// The releases of releases.json: which version comes next, which rules they keep, and the changelog made of them.
import * as z from 'zod'
import { compareVersions, parseVersion, VERSION_PATTERN, type Version } from '../../src/protocol/versions.ts'

const version = z.string().regex(VERSION_PATTERN, 'must be like 0.2.0, 0.2.1 or 0.2.0-rc.1')
const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, 'must be like sha256:…, with 64 digits')
const sentences = z.array(z.string().regex(/^[A-Z`].*\.$/, 'must be a sentence'))

export const KINDS = ['rc', 'stable', 'patch', 'repackage'] as const
export type Kind = (typeof KINDS)[number]

const Images = z.strictObject({ slipway: digest, agent: digest })
export type Images = z.output<typeof Images>

export const Release = z.strictObject({
  chart: version,
  app: version,
  kind: z.enum(KINDS),
  date: z.iso.date(),
  /** Null until the images are built, which is after the commit that prepares the release. */
  commit: z
    .string()
    .regex(/^[0-9a-f]{40}$/)
    .nullable(),
  /** Null for a release that was not published. */
  images: Images.nullable(),
  /** The chart version that packages the same application. */
  repackages: version.optional(),
  changes: sentences,
  contract: sentences,
})
export type Release = z.output<typeof Release>
/** Newest first. */
export const Releases = z.array(Release).min(1)

// ---- versions

const parse = (text: string) => parseVersion(text)!
const format = ({ minor, patch, rc }: Version) => `0.${minor}.${patch}${rc === null ? '' : `-rc.${rc}`}`

const raiseCandidate = (of: Version): Version =>
  of.rc === null ? { minor: of.minor + 1, patch: 0, rc: 1 } : { ...of, rc: of.rc + 1 }
const raisePatch = (of: Version): Version => ({ ...of, patch: of.patch + 1 })

/**
 * The next release of this kind. Chart and application are numbered apart, because a chart may package an application
 * again. Both have the same minor number.
 */
export function next(kind: Kind, newest: Release): Pick<Release, 'chart' | 'app' | 'kind' | 'repackages'> {
  const chart = parse(newest.chart)
  const app = parse(newest.app)
  const of = (raise: (version: Version) => Version) => ({ chart: format(raise(chart)), app: format(raise(app)), kind })
  switch (kind) {
    case 'rc':
      return of(raiseCandidate)
    case 'stable':
      if (chart.rc === null)
        throw new Error(`${newest.chart} is stable. Make a release candidate first: npm run release -- rc`)
      return of(version => ({ ...version, rc: null }))
    case 'patch':
      if (chart.rc !== null)
        throw new Error(
          `${newest.chart} is a release candidate. Make the next one (rc), or patch an earlier release on a branch ` +
            'that begins at its tag.',
        )
      return of(raisePatch)
    case 'repackage':
      if (newest.images === null)
        throw new Error(`${newest.chart} was not published, so there is no application to package again.`)
      return {
        chart: format(chart.rc === null ? raisePatch(chart) : raiseCandidate(chart)),
        app: newest.app,
        kind,
        repackages: newest.chart,
      }
  }
}

// ---- rules

/** The rules that the releases break, one sentence for each fault. */
export function findFaults(releases: Release[]): string[] {
  const faults: string[] = []
  releases.forEach((release, i) => {
    const { chart, app, images, commit, contract, kind } = release
    const before = releases[i + 1]
    if (before) {
      if (compareVersions(parse(chart), parse(before.chart)) <= 0)
        faults.push(`Chart ${chart} is not higher than ${before.chart}.`)
      if (compareVersions(parse(app), parse(before.app)) < 0)
        faults.push(`App ${app} of ${chart} is lower than ${before.app}.`)
      faults.push(...compareWithNext(release, before))
    }
    if (i > 0 && commit === null) faults.push(`${chart} has no commit. Only the newest release may have none.`)
    if (images && commit === null) faults.push(`${chart} has images, but not the commit that they were built from.`)
    for (const other of releases.slice(i + 1)) {
      const isSameApp = other.app === app
      if (isSameApp && JSON.stringify(other.images) !== JSON.stringify(images))
        faults.push(`${chart} and ${other.chart} have the app ${app}, but not the same images.`)
      if (!isSameApp && images && other.images && images.slipway === other.images.slipway)
        faults.push(`${chart} and ${other.chart} have the same image, but different apps.`)
    }
    if (contract.length > 0 && (parse(chart).patch > 0 || kind === 'repackage'))
      faults.push(`${chart} changes the contract. Only 0.X.0 and its release candidates may.`)
  })
  return faults
}

function compareWithNext({ chart, app, kind, repackages }: Release, before: Release): string[] {
  try {
    const due = next(kind, before)
    if (due.chart === chart && due.app === app && due.repackages === repackages) return []
    return [`After ${before.chart}, a release of kind ${kind} is ${due.chart} with the app ${due.app}, not ${chart}.`]
  } catch (error) {
    return [(error as Error).message]
  }
}

/** A published release never changes. `earlier` are those of a tag or of an earlier commit. */
export function findChanged(releases: Release[], earlier: Release[]): string[] {
  return earlier
    .filter(({ images }) => images !== null)
    .filter(one => {
      const now = releases.find(({ chart }) => chart === one.chart)
      return JSON.stringify(now && Release.parse(now)) !== JSON.stringify(one)
    })
    .map(({ chart }) => `${chart} was published with other content. Make a new release instead.`)
}

// ---- the changelog and the versions that are made of them

export function renderChangelog(releases: Release[]): string {
  const sections = releases.map(({ chart, app, date, images, repackages, changes, contract }) => {
    const same = repackages ? `, the same as ${repackages}` : ''
    const state = images ? '' : ' Its images are not published.'
    const parts = [
      `## ${chart} (${date})`,
      `The chart ${chart} has the application ${app}${same}.${state}`,
      list(changes),
      ...(contract.length > 0 ? ['### Changes of the contract', list(contract)] : []),
    ]
    return parts.filter(part => part !== '').join('\n\n')
  })
  const head = '# Changelog\n\nMade from `deploy/releases/releases.json` by `npm run release`.'
  return `${[head, ...sections].join('\n\n')}\n`
}

const list = (sentences: string[]) => sentences.map(sentence => wrap(sentence, 118)).join('\n')

function wrap(sentence: string, width: number): string {
  const lines = ['']
  for (const word of sentence.split(' ')) {
    const last = lines.at(-1)!
    if (last !== '' && last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
  }
  return `- ${lines.join('\n  ')}`
}

/** Chart.yaml with the versions of a release. */
export const writeChartVersions = (chartYaml: string, { chart, app }: Pick<Release, 'chart' | 'app'>): string =>
  chartYaml.replace(/^version: .*$/m, `version: ${chart}`).replace(/^appVersion: .*$/m, `appVersion: ${app}`)
