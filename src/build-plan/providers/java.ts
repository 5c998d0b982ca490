// Maven and Gradle projects, by their wrapper if they have one.
import type { Proposal } from '../build-plan.ts'
import type { Folder } from '../source-files.ts'
import { findVersion } from '../versions.ts'

const GRADLE_FILES = ['build.gradle', 'build.gradle.kts', 'settings.gradle', 'settings.gradle.kts']
const SPRING = 'spring-boot'

export function proposeJava(app: Folder): Proposal | null {
  if (app.has('pom.xml')) return proposeMaven(app)
  return GRADLE_FILES.some(app.has) ? proposeGradle(app) : null
}

function proposeMaven(app: Folder): Proposal {
  const isWrapped = app.has('mvnw')
  const pom = app.read('pom.xml') ?? ''
  const release = /<(?:maven\.compiler\.(?:release|target)|java\.version)>\s*(?:1\.)?(\d+)\s*</.exec(pom)?.[1]
  return {
    tools: [
      java(app, release && [`>=${release}`, 'pom.xml']),
      ...(isWrapped ? [] : [{ name: 'maven' as const, version: null, from: null }]),
    ],
    build: `${isWrapped ? 'sh mvnw' : 'mvn'} --batch-mode -DskipTests package`,
    start: startOf('target', pom.includes(SPRING)),
    certain: ['pom.xml makes it a Maven project.'],
  }
}

function proposeGradle(app: Folder): Proposal {
  const isWrapped = app.has('gradlew')
  // A project of several has its program in one of them.
  const project = ['', 'app', 'server', 'api'].find(name => GRADLE_FILES.slice(0, 2).some(app.folder(name).has)) ?? ''
  const script = GRADLE_FILES.slice(0, 2).map(app.folder(project).read).join('')
  const release = /(?:JavaLanguageVersion\.of|JavaVersion\.VERSION_|sourceCompatibility\s*=\s*['"]?)\(?(\d+)/.exec(
    script,
  )?.[1]
  const isSpring = script.includes(SPRING) || script.includes('org.springframework.boot')
  const prefix = project === '' ? '' : `${project}/`
  // The plugin `application` makes a folder with a script that has the whole class path.
  const isApplication = !isSpring && /\bapplication\b/.test(script)
  const task = isApplication ? 'installDist' : 'build'
  return {
    tools: [
      java(app, release && [`>=${release}`, 'the Gradle script']),
      ...(isWrapped ? [] : [{ name: 'gradle' as const, version: null, from: null }]),
    ],
    build: `${isWrapped ? 'sh gradlew' : 'gradle'} --no-daemon ${task} -x test`,
    start: isApplication
      ? `sh -c 'exec "$(ls ${prefix}build/install/*/bin/* | grep -v .bat | head -n 1)"'`
      : startOf(`${prefix}build/libs`, isSpring),
    certain: ['It is a Gradle project.'],
  }
}

const java = (app: Folder, [version, from]: [string, string] | [] | '' | undefined = []) => {
  const found = findVersion(app, 'java', ['.java-version'])
  return found.version === null && version ? { name: 'java' as const, version, from: from! } : found
}

/** The largest archive that is not one of sources, documents or classes without their dependencies. */
const startOf = (folder: string, isSpring: boolean) =>
  `java ${isSpring ? '-Dserver.port=$PORT ' : ''}` +
  `-jar "$(ls -S ${folder}/*.jar | grep -Ev '(-plain|-sources|-javadoc)\\.jar$' | head -n 1)"`
