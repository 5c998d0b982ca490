// The image in which a plan is built and run.
import { describe, expect, test } from 'vitest'
import { readSettings } from '../../src/agent/engines/container/settings.ts'
import { type BaseImages, chooseBaseImage } from '../../src/agent/images/language-images.ts'
import type { Tool, ToolName } from '../../src/build-plan/build-plan.ts'

const NONE: BaseImages = { all: null, of: {} }
const tool = (name: ToolName, version: string | null = null): Tool => ({ name, version, from: version && 'a file' })
const imageOf = (provider: string, tools: Tool[] = [], images = NONE) =>
  chooseBaseImage({ provider, tools }, images).image

describe('the official image', () => {
  test.each<[string, string | null, string]>([
    ['node', null, 'docker.io/library/node:24-slim'],
    ['node', '>=20', 'docker.io/library/node:24-slim'],
    ['node', '^20.1.0 || ^22', 'docker.io/library/node:20-slim'],
    ['node', '22', 'docker.io/library/node:22-slim'],
    ['node', 'v22.11.0', 'docker.io/library/node:22.11.0-slim'],
    ['node', '22.x', 'docker.io/library/node:22-slim'],
    ['node', 'lts/*', 'docker.io/library/node:24-slim'],
    ['python', '>=3.9,<3.12', 'docker.io/library/python:3.9-slim'],
    ['python', '~=3.11', 'docker.io/library/python:3.13-slim'],
    ['python', '==3.12.*', 'docker.io/library/python:3.12-slim'],
    ['go', '>=1.26', 'docker.io/library/golang:1'],
    ['rust', 'nightly', 'docker.io/library/rust:1'],
    ['ruby', '3.3.0', 'docker.io/library/ruby:3.3.0'],
    ['deno', null, 'docker.io/denoland/deno:debian'],
  ])('for %s %s is %s', (language, version, image) => {
    expect(imageOf(language, [tool(language as ToolName, version)])).toBe(image)
  })

  test('for graphs is that of Python if one is in Python, and gets Node', () => {
    const server = [tool('node', '>=22'), tool('graphs-javascript')]
    expect(imageOf('graphs', server)).toBe('docker.io/library/node:24-slim')
    expect(imageOf('graphs', [...server, tool('python', '3.12')])).toBe('docker.io/library/python:3.12-slim')
  })

  test('for Java is that of its build tool, and for a command alone that of Node', () => {
    expect(imageOf('java', [tool('java', '>=17')])).toBe('docker.io/library/eclipse-temurin:21-jdk')
    expect(imageOf('java', [tool('java', '17'), tool('maven')])).toBe('docker.io/library/maven:3-eclipse-temurin-17')
    expect(imageOf('java', [tool('java'), tool('gradle')])).toBe('docker.io/library/gradle:8-jdk21')
    for (const provider of ['command', 'shell', 'static'])
      expect(imageOf(provider)).toBe('docker.io/library/node:24-slim')
  })
})

describe('the operator', () => {
  test('sets the image of a language, and one for all others', () => {
    const { base_images } = readSettings({
      CONTAINER_BASE_IMAGE: 'r.example/all:1',
      CONTAINER_BASE_IMAGES: 'python=r.example/python:{version}, go=r.example/go:1,',
    })
    expect(imageOf('python', [tool('python', '3.12')], base_images)).toBe('r.example/python:3.12')
    expect(imageOf('python', [], base_images)).toBe('r.example/python:3.13')
    expect(imageOf('ruby', [], base_images)).toBe('r.example/all:1')
    const { image, warning } = chooseBaseImage({ provider: 'go', tools: [tool('go', '>=1.30')] }, base_images)
    expect(image).toBe('r.example/go:1')
    expect(warning).toContain('>=1.30')
  })

  test.each(['cobol=r.example/a:1', 'go', 'go=no image', 'go='])('cannot set %s', entry => {
    expect(() => readSettings({ CONTAINER_BASE_IMAGES: entry })).toThrow(entry)
  })
})
