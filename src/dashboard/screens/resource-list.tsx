// A screen that lists resources. It owns the heading, the filter, the views, the table with its keys, the pages, and
// what is shown while there is nothing to list. A screen declares its query, columns, texts and how to create one.
import { signal } from '@preact/signals'
import type { ComponentChildren, VNode } from 'preact'
import { useMemo, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useCommands, useRowKeys } from '../commands/commands.ts'
import { Button, ButtonLink } from '../parts/button.tsx'
import { Chip, FilterField } from '../parts/field.tsx'
import { ListCard, PageHead, Stack, Toolbar } from '../parts/page.tsx'
import { Empty, Skeleton } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import { Cell, type Column, Group, More, Row, rowLink, Table } from '../parts/table.tsx'
import { useCrumbs } from '../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../router/links.tsx'

type Read = { error: Error | null; isLoadingError: boolean; refetch: () => unknown }
/** The result of `usePages`, `useOffsetPages` or `useReadList`. */
type Query<Item> = Omit<Read, 'isLoadingError'> & {
  items: Item[] | undefined
  hasNextPage?: boolean
  isFetchingNextPage?: boolean
  isFetchNextPageError?: boolean
  isPlaceholderData?: boolean
  fetchNextPage?: () => unknown
}

type ItemColumn<Item> = Omit<Column, 'head' | 'sorted'> & {
  cell: (item: Item) => ComponentChildren
  /** A second, smaller line. */
  detail?: (item: Item) => ComponentChildren
  /** Left out on a phone. */
  isWideOnly?: boolean | ((item: Item) => boolean)
}
/** The first column. Its link opens the item, from anywhere in the row. */
type NameColumn<Item> = {
  label: string
  width: string
  icon: (item: Item) => VNode
  to: (item: Item) => string
  name: (item: Item) => string
  badge?: (item: Item) => ComponentChildren
  detail?: (item: Item) => ComponentChildren
}
export type ColumnsOf<Item> = [NameColumn<Item>, ...ItemColumn<Item>[]]

type Filter<Item> = {
  /** The members that are searched: `name or address`. */
  by: string
  placeholder?: string
  /** The texts of an item that are searched. Without them, the query has filtered by the parameter. */
  texts?: (item: Item) => (string | null | undefined)[]
  /** The parameter of the address. */
  param?: string
  /** The number of matches, if the query has filtered. */
  aside?: ComponentChildren
}
type View<Item> = {
  name: string
  label: ComponentChildren
  /** Without it, the query has filtered. */
  has?: (item: Item) => boolean
}
type Create = {
  label: string
  to: string
  /** The reason why the caller cannot create one. */
  unavailable?: string | undefined
  /** The key, if the menu has its command. Otherwise N, on this screen only. */
  key?: string
}
type Text = { title: string; text: ComponentChildren; command?: string }

type Props<Item> = {
  title: string
  /** The word for one item. Its plural ends in `s`. */
  thing: string
  caption: string
  query: Query<Item>
  /** Further reads that rows need. A list that lacks one of them says so. */
  reads?: Read[]
  keyOf?: (item: Item) => string
  create?: Create
  /** Further actions of the heading. */
  actions?: ComponentChildren
  filter?: Filter<Item>
  views?: View<Item>[]
  allLabel?: ComponentChildren
  /** Chips beside the views. */
  chips?: ComponentChildren
  /** Takes the place of the filter and the views. */
  toolbar?: ComponentChildren
  empty: Text | VNode
  /** Shown instead of the rows: the filter cannot match. */
  noMatch?: Text | undefined
  /** Shows the items. Without columns, `body` does. */
  columns?: ColumnsOf<Item>
  body?: (items: Item[]) => VNode
  groups?: { label: string; count?: number | undefined; has: (item: Item) => boolean }[]
  /** Actions of the row that has the pointer or the focus. */
  quick?: (item: Item) => VNode
  /** Cells depend on nothing but their item: a row is drawn again only if its item has changed. */
  isSteady?: boolean
  /** Reads the next page when the end comes into view. */
  isEager?: boolean
  /** The frame of the list: the heading and tabs of several pages. */
  frame?: (parts: { actions: ComponentChildren; children: ComponentChildren }) => VNode
  /** Cards below the list. */
  children?: ComponentChildren
}

export function ResourceList<Item extends object>(props: Props<Item>) {
  const { title, thing, query, reads = [], create, filter, views = [], columns, body, noMatch, children } = props
  const [text] = useFilter(paramOf(filter))
  const [viewName] = useFilter('view')
  const view = views.find(({ name }) => name === viewName)
  const list = useRef<HTMLDivElement>(null)
  useRowKeys(list, thing)
  useCreateCommand(create)
  const { items, error } = query
  const shown = items && select(items, text, filter, view)
  // The query has filtered: there may be others.
  const mayHaveOthers = !filter?.texts && (text !== '' || view !== undefined)
  const failed = [items ? undefined : query, ...reads.filter(({ isLoadingError }) => isLoadingError)].filter(
    one => one?.error,
  )
  const actions = (props.actions || create) && (
    <>
      {props.actions}
      {create && <CreateLink create={create} hint={create.key ?? 'N'} look="primary" icon="plus" />}
    </>
  )
  const content = (
    <div>
      {props.toolbar ?? <ListToolbar {...props} shown={shown} />}
      {failed[0]?.error && (
        <Problem error={failed[0].error} onRetry={() => failed.forEach(one => void one?.refetch())} />
      )}
      <ListCard isOld={query.isPlaceholderData}>
        {!items && failed.length === 0 && !noMatch && <Skeleton lines={6} />}
        {noMatch || (items && shown?.length === 0 && (items.length > 0 || mayHaveOthers)) ? (
          <NoMatch thing={thing} param={paramOf(filter)} text={noMatch} />
        ) : (
          items?.length === 0 && <Nothing empty={props.empty} create={create} />
        )}
        <div ref={list}>
          {shown &&
            shown.length > 0 &&
            !noMatch &&
            (columns ? <Rows {...props} columns={columns} items={shown} /> : body?.(shown))}
        </div>
      </ListCard>
      {query.isFetchNextPageError && error && <Problem error={error} onRetry={() => query.fetchNextPage?.()} />}
      {query.hasNextPage && !query.isFetchNextPageError && (
        <More
          isBusy={query.isFetchingNextPage === true}
          isEager={props.isEager}
          onMore={() => void query.fetchNextPage?.()}
        />
      )}
    </div>
  )
  const whole = children ? (
    <Stack>
      {content}
      {children}
    </Stack>
  ) : (
    content
  )
  return props.frame ? (
    props.frame({ actions, children: whole })
  ) : (
    <Plain title={title} actions={actions} whole={whole} />
  )
}

const paramOf = <Item,>(filter: Filter<Item> | undefined): string => filter?.param ?? 'name'

type ToolbarProps<Item> = Props<Item> & { shown: Item[] | undefined }
function ListToolbar<Item>({ thing, query, filter, views = [], allLabel, chips, shown }: ToolbarProps<Item>) {
  const [text, setText] = useFilter(paramOf(filter))
  const [viewName, setView] = useFilter('view')
  if (!filter && !chips) return null
  const all = views.length > 0 && (
    <Chip pressed={!views.some(({ name }) => name === viewName)} onPress={() => setView('')}>
      {allLabel ?? 'All'}
    </Chip>
  )
  const toChip = ({ name, label }: View<Item>) => (
    <Chip key={name} pressed={name === viewName} onPress={() => setView(name === viewName ? '' : name)}>
      {label}
    </Chip>
  )
  return (
    <Toolbar
      views={
        (all || chips) && (
          <>
            {all}
            {views.map(toChip)}
            {chips}
          </>
        )
      }
    >
      {filter && (
        <FilterField
          label={`Filter ${thing}s by ${filter.by}`}
          placeholder={filter.placeholder ?? `Filter by ${filter.by}`}
          value={text}
          onChange={setText}
          aside={filter.aside ?? (filter.texts && countText(shown, query))}
          hint="/"
        />
      )}
    </Toolbar>
  )
}

function Nothing({ empty, create }: { empty: Text | VNode; create: Create | undefined }) {
  if (!('title' in empty)) return empty
  return (
    <Empty
      title={empty.title}
      {...(empty.command && { command: empty.command })}
      action={create && !create.unavailable && <CreateLink create={create} />}
    >
      {empty.text}
    </Empty>
  )
}

function NoMatch({ thing, param, text }: { thing: string; param: string; text: Text | undefined }) {
  return (
    <Empty
      title={text?.title ?? `No ${thing} matches`}
      action={<Button onClick={() => setFilters({ [param]: '', view: '' })}>Show all {thing}s</Button>}
    >
      {text?.text ?? 'A link to this address has the filter.'}
    </Empty>
  )
}

type PlainProps = { title: string; actions: ComponentChildren; whole: ComponentChildren }
function Plain({ title, actions, whole }: PlainProps) {
  useCrumbs({ label: title })
  return (
    <>
      <PageHead title={title} actions={actions} />
      {whole}
    </>
  )
}

type CreateLinkProps = { create: Create; hint?: string; look?: 'primary'; icon?: 'plus' }
const CreateLink = ({ create, ...rest }: CreateLinkProps) => (
  <ButtonLink href={toAddress(create.to)} unavailable={create.unavailable} {...rest}>
    {create.label}
  </ButtonLink>
)

function useCreateCommand(create: Create | undefined): void {
  const [, navigate] = useLocation()
  useCommands(
    !create || create.unavailable || create.key
      ? []
      : [{ id: 'new', label: create.label, kind: 'action', keys: 'n', run: () => navigate(toAddress(create.to)) }],
  )
}

function select<Item>(items: Item[], text: string, filter?: Filter<Item>, view?: View<Item>): Item[] {
  const words = text.toLowerCase()
  return items.filter(
    item =>
      (filter?.texts?.(item).some(one => one?.toLowerCase().includes(words)) ?? true) && (view?.has?.(item) ?? true),
  )
}

const countText = <Item,>(shown: Item[] | undefined, { items, hasNextPage }: Query<Item>) =>
  items && items.length > 0 && shown && `${shown.length} of ${items.length}${hasNextPage ? '+' : ''}`

type RowsProps<Item> = Props<Item> & { columns: ColumnsOf<Item>; items: Item[] }
function Rows<Item extends object>(props: RowsProps<Item>) {
  const { caption, columns, groups, items, keyOf = item => (item as unknown as { id: string }).id } = props
  const toRow = (item: Item) => <ItemRow key={keyOf(item)} {...props} item={item} id={keyOf(item)} />
  return (
    <Table caption={caption} columns={columns} isGrouped={groups !== undefined}>
      {groups
        ? groups.map(({ label, count, has }) => {
            const members = items.filter(has)
            return (
              members.length > 0 && (
                <Group key={label} label={label} count={count ?? members.length} columns={columns.length}>
                  {members.map(toRow)}
                </Group>
              )
            )
          })
        : items.map(toRow)}
    </Table>
  )
}

const activeId = signal<string | undefined>(undefined)

type ItemRowProps<Item> = RowsProps<Item> & { item: Item; id: string }
function ItemRow<Item extends object>({ item, id, columns, quick, isSteady }: ItemRowProps<Item>) {
  const [first, ...others] = columns
  const activate = () => {
    activeId.value = id
  }
  const draw = () => (
    <Row onActive={quick && activate}>
      <Cell icon={first.icon(item)} detail={first.detail?.(item)}>
        <Link to={first.to(item)} data-row class={rowLink} title={first.name(item)}>
          {first.name(item)}
        </Link>{' '}
        {first.badge?.(item)}
      </Cell>
      {others.map(({ label, cell, detail, isEnd = false, isWideOnly }) => (
        <Cell
          key={label}
          detail={detail?.(item)}
          isEnd={isEnd}
          isWideOnly={typeof isWideOnly === 'function' ? isWideOnly(item) : isWideOnly === true}
          quick={isEnd && quick && <Quick id={id}>{() => quick(item)}</Quick>}
        >
          {cell(item)}
        </Cell>
      ))}
    </Row>
  )
  return useMemo(draw, [isSteady ? item : {}])
}

const Quick = ({ id, children }: { id: string; children: () => VNode }) => (activeId.value === id ? children() : null)
