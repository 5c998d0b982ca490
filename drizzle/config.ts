// drizzle-kit turns a change of the tables into the next numbered migration by this.
import { defineConfig } from 'drizzle-kit'

export default defineConfig({ dialect: 'postgresql', schema: './src/**/*tables.ts', out: './drizzle' })
