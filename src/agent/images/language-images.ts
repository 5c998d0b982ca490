// Chooses the image in which a plan is built and run, by its language and the version that the source asks for. Pure.
import * as z from 'zod'
import type { BuildPlan } from '../../build-plan/build-plan.ts'
import { isWithin, lowestWithin } from '../../build-plan/version-ranges.ts'
import { ImageReference } from '../../protocol/kubernetes.schema.ts'

/** `{version}` stands for the version that the source asks for, else for this one. */
type LanguageImage = { image: string; version: string }
const OFFICIAL = {
  node: { image: 'docker.io/library/node:{version}-slim', version: '24' },
  python: { image: 'docker.io/library/python:{version}-slim', version: '3.13' },
  go: { image: 'docker.io/library/golang:{version}', version: '1' },
  rust: { image: 'docker.io/library/rust:{version}', version: '1' },
  java: { image: 'docker.io/library/eclipse-temurin:{version}-jdk', version: '21' },
  maven: { image: 'docker.io/library/maven:3-eclipse-temurin-{version}', version: '21' },
  gradle: { image: 'docker.io/library/gradle:8-jdk{version}', version: '21' },
  ruby: { image: 'docker.io/library/ruby:{version}', version: '3.4' },
  deno: { image: 'docker.io/denoland/deno:debian', version: '2' },
} satisfies Record<string, LanguageImage>
type Language = keyof typeof OFFICIAL

/** `all`: the image of all languages without one of their own. Without it they have the official ones. */
export type BaseImages = { all: string | null; of: Partial<Record<Language, string>> }

/** A setting: `language=image`, separated by commas. */
export const BaseImageList = z.string().transform((text, check): BaseImages['of'] => {
  const entries = text.split(',').flatMap(entry => {
    const [name = '', image = ''] = entry.split('=', 2).map(part => part.trim())
    if (entry.trim() === '') return []
    if (name in OFFICIAL && ImageReference.safeParse(image.replaceAll('{version}', '1')).success) return [[name, image]]
    const languages = Object.keys(OFFICIAL).join(', ')
    check.addIssue({ code: 'custom', message: `has \`${entry.trim()}\`, which is not language=image, of ${languages}` })
    return []
  })
  return Object.fromEntries(entries)
})

/** `warning`: the image may have another version than the source asks for. */
export function chooseBaseImage({ provider, tools }: Pick<BuildPlan, 'provider' | 'tools'>, images: BaseImages) {
  const versionOf = (name: string) => tools.find(tool => tool.name === name)
  const builder = (['maven', 'gradle'] as const).find(versionOf)
  // Node's image also has a shell, for a command alone.
  // The image of Python gets Node, with which graphs of both languages are served.
  const ofGraphs = provider === 'graphs' && versionOf('python') ? 'python' : null
  const language = builder ?? ofGraphs ?? (provider in OFFICIAL ? (provider as Language) : 'node')
  const image = images.of[language] ?? images.all ?? OFFICIAL[language].image
  const { version = null, from = null } = versionOf(builder ? 'java' : language) ?? {}
  const isFixed = version !== null && !image.includes('{version}')
  return {
    image: image.replaceAll('{version}', tagFor(version, OFFICIAL[language].version)),
    warning: isFixed
      ? `The source asks for ${language} ${version} (${from}). The image \`${image}\` brings its own version.`
      : null,
  }
}

/** The tag of the version that is asked for, or the usual one if that fits: `24` is the newest of its line. */
function tagFor(asked: string | null, usual: string): string {
  if (asked === null) return usual
  const exact = /^v?(\d+(?:\.\d+){0,2})(?:\.[x*])*$/.exec(asked.trim())?.[1]
  if (exact !== undefined) return exact
  const parts = usual.split('.').length
  if (isWithin(usual + '.9999'.repeat(3 - parts), asked)) return usual
  return lowestWithin(asked)?.split('.').slice(0, parts).join('.') ?? usual
}
