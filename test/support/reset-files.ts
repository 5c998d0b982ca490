// A setup file: Vitest runs it again for every file of tests, also in a worker that runs several.
import { afterAll } from 'vitest'
import { resetFileState } from './file-state.ts'

afterAll(resetFileState)
