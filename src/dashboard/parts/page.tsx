// The head of a screen: what it shows, its state, and what can be done here.
import type { ComponentChildren } from 'preact'
import type { Shape, Tone } from '../format/state.ts'
import { Button, ButtonLink } from './button.tsx'
import { Glyph } from './icon.tsx'
import styles from './page.module.css'
import { toast } from './toasts.tsx'

type PageHeadProps = {
  title: string
  state?: ComponentChildren
  actions?: ComponentChildren
  /** Facts in one line below. */
  meta?: ComponentChildren[]
}
export const PageHead = ({ title, state, actions, meta = [] }: PageHeadProps) => (
  <header class={styles.head}>
    <div class={styles.heading}>
      <h1>{title}</h1>
      {state}
    </div>
    {actions && <div class={styles.actions}>{actions}</div>}
    {meta.length > 0 && (
      <ul class={styles.meta}>
        {meta.filter(Boolean).map((fact, index) => (
          <li key={index}>{fact}</li>
        ))}
      </ul>
    )}
  </header>
)

type CreateLinkProps = {
  href: string
  /** Why the caller cannot create one. */
  missing: string | undefined
  children: string
}
/** Leads from a list to where another one is created. */
export const CreateLink = ({ href, missing, children }: CreateLinkProps) =>
  missing === undefined ? (
    <ButtonLink href={href} look="primary" icon="plus" hint="N">
      {children}
    </ButtonLink>
  ) : (
    <Button
      icon="plus"
      unavailable
      title={missing}
      onClick={() => toast('bad', `${children} is not possible`, missing)}
    >
      {children}
    </Button>
  )

/** A title of a card with the glyph of its state. */
export const Marked = ({ shape, tone, children }: { shape: Shape; tone: Tone; children: ComponentChildren }) => (
  <span class={styles.marked}>
    <Glyph shape={shape} tone={tone} />
    <span>{children}</span>
  </span>
)

/** The filter of a list, and the views beside it. */
export const Toolbar = ({ children, views }: { children: ComponentChildren; views?: ComponentChildren }) => (
  <div class={styles.toolbar}>
    {children}
    {views && <div class={styles.views}>{views}</div>}
  </div>
)

/** The surface of a list. On a phone it reaches from edge to edge. */
export const ListCard = ({ children }: { children: ComponentChildren }) => <div class={styles.list}>{children}</div>

/** Sections of a page below each other, or a wide one and a narrow one side by side. */
export const Stack = ({ children }: { children: ComponentChildren }) => <div class={styles.stack}>{children}</div>
export const Columns = ({ children }: { children: ComponentChildren }) => <div class={styles.columns}>{children}</div>

/** The inside of a card that is no table. */
export const Body = ({ children }: { children: ComponentChildren }) => <div class={styles.body}>{children}</div>
export const Note = ({ children }: { children: ComponentChildren }) => <p class={styles.note}>{children}</p>

export type Fact = [label: string, value: ComponentChildren]
/** What is known of a thing, label by label. Facts without a value are left out. */
export const Facts = ({ facts }: { facts: Fact[] }) => (
  <dl class={styles.facts}>
    {facts.flatMap(([label, value]) =>
      value === null || value === undefined || value === false || value === ''
        ? []
        : [
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>,
          ],
    )}
  </dl>
)

export const Foot = ({ children }: { children: ComponentChildren }) => <footer class={styles.foot}>{children}</footer>
