// A command in the image of an application: images that a plan has built need its folder and its programs first. Pure.
import type { Artifact } from '../engine.ts'

export const imageCommand = ({ enter }: Pick<Artifact, 'enter'>, command: string): string =>
  enter ? `${enter} && ${command}` : command
