"""The schema of `memory.db` as numbered steps. A step that was released is never edited; changes are appended."""

from __future__ import annotations

APPLICATION_ID = 0x4D54_4442
"""Stands in the file's header, so that a foreign SQLite file is not taken for ours."""

_FTS_OPTIONS = "content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2'"

_FIRST = f"""
create table meta(
  key text primary key,
  value any not null
) strict, without rowid;

create table turns(
  scope text not null,
  turn_id text not null,
  session_key text not null,
  session_id text not null,
  captured_at integer not null,
  recorded_at integer not null,
  source text not null,
  last_seq integer not null,            -- of its newest message: counts unread turns without reading messages
  primary key (scope, turn_id, session_key)
) strict, without rowid;
create index turns_by_session on turns(scope, session_key, last_seq);

create table messages(
  seq integer primary key autoincrement,
  id text not null unique,
  scope text not null,
  turn_id text not null,
  position integer not null,
  session_key text not null,
  session_id text not null,
  role text not null,
  origin text not null,
  text text not null,
  hash text not null,
  sent_at integer not null,
  recorded_at integer not null,
  foreign key (scope, turn_id, session_key) references turns(scope, turn_id, session_key)
) strict;
create index messages_by_session on messages(scope, session_key, seq);
create index messages_by_turn on messages(scope, turn_id, session_key, position);
create index messages_by_recorded on messages(scope, recorded_at);
create index messages_by_sent on messages(scope, sent_at);

create table sessions(
  scope text not null,
  session_key text not null,
  session_id text not null,
  last_seq integer not null default 0,       -- newest message
  last_atom_seq integer not null default 0,  -- newest atom
  l1_cursor integer not null default 0,      -- messages up to here are read by L1, or parked
  l1_runs integer not null default 0,
  l2_cursor integer not null default 0,      -- atoms up to here are in scenes
  last_scene_name text not null default '',
  last_active_at integer not null,
  last_l2_at integer,
  primary key (scope, session_key)
) strict;
create index sessions_unread on sessions(scope, session_key) where last_seq > l1_cursor;
create index sessions_with_atoms on sessions(scope, session_key) where last_atom_seq > l2_cursor;

create table scope_state(
  scope text primary key,
  message_changes integer not null default 0,
  atom_changes integer not null default 0,
  scene_changes integer not null default 0,
  persona_changes integer not null default 0,
  scenes_processed integer not null default 0,
  persona_request text not null default '',
  persona_atom_mark integer not null default 0,   -- newest atom when the last persona was begun
  persona_scene_mark integer not null default 0   -- newest scene revision then
) strict, without rowid;

create table atoms(
  seq integer primary key autoincrement,
  id text not null unique,
  scope text not null,
  type text not null,
  content text not null,
  priority integer not null,
  scene_name text not null,
  scene_folded text not null,
  origin text not null,
  extractor text not null,
  session_key text not null,
  session_id text not null,
  activity_start integer,
  activity_end integer,
  valid_from integer not null,
  valid_to integer,
  recorded_from integer not null,
  superseded_at integer,
  superseded_by text
) strict;
create index atoms_live on atoms(scope, session_key, seq) where superseded_at is null;
create index atoms_live_by_seq on atoms(scope, seq) where superseded_at is null;
create index atoms_standing on atoms(scope, seq)
  where superseded_at is null and type = 'instruction' and priority = -1;
create index atoms_by_recorded on atoms(scope, recorded_from);

create table atom_sources(
  atom integer not null references atoms(seq) on delete cascade,
  message integer not null references messages(seq),
  hash text not null,                        -- of the message's text when the atom was made
  primary key (atom, message)
) strict, without rowid;
create index atom_sources_by_message on atom_sources(message);

create table scene_revisions(
  seq integer primary key autoincrement,
  scope text not null,
  name text not null,
  revision integer not null,
  newest integer not null,
  status text not null,
  merged_into text,
  summary text not null,
  sections text not null,                    -- JSON: [[heading, [[text, [source ids]], ...]], ...]
  hash text not null,
  heat integer not null,
  created_at integer not null,
  updated_at integer not null,
  op text not null,
  reason text not null,
  unique (scope, name, revision)
) strict;
create index scenes_newest on scene_revisions(scope, seq) where newest = 1;

create table persona_revisions(
  seq integer primary key autoincrement,
  scope text not null,
  revision integer not null,
  sections text not null,
  hash text not null,
  created_at integer not null,
  reason text not null,
  unique (scope, revision)
) strict;

create table jobs(
  id integer primary key,
  kind text not null,
  scope text not null,
  session_key text not null,
  due_at integer,                            -- null: nothing to do
  requested integer not null default 0,      -- asked for by a person or a session's end, not by the plan
  expedite integer not null default 0,
  parked_mark integer,                       -- newest input when it was parked; null: not parked
  attempts integer not null default 0,
  last_error text,
  leased_until integer,
  lease_owner text,
  lease_token integer not null default 0,
  atom_mark integer not null default 0,      -- newest input when it was leased
  scene_mark integer not null default 0,
  persona_mark integer not null default 0,
  unique (kind, scope, session_key)
) strict;
create index jobs_due on jobs(due_at, kind, id) where leased_until is null and due_at is not null;
create index jobs_leased on jobs(leased_until) where leased_until is not null;
create index jobs_expedited on jobs(scope) where expedite = 1;
create index jobs_retrying on jobs(id) where attempts > 0;
create index jobs_parked on jobs(kind, scope) where parked_mark is not null;

create table parked(
  id integer primary key autoincrement,
  kind text not null,
  scope text not null,
  session_key text not null,
  from_seq integer not null,
  to_seq integer not null,
  reason text not null,
  detail text not null,
  parked_at integer not null,
  reopened integer not null default 0,
  resolved_at integer
) strict;
create index parked_open on parked(kind, scope, session_key) where resolved_at is null;

create table calls(
  id integer primary key,
  at integer not null,
  task text not null,
  scope text not null,
  model text not null,
  tokens_in integer not null,
  tokens_out integer not null,
  cost_usd real not null,
  elapsed_ms integer not null,
  outcome text not null,
  error text not null
) strict;
create index calls_by_time on calls(at);

create table audit(
  id integer primary key autoincrement,
  at integer not null,
  scope text not null,
  action text not null,                      -- supersede, close, edit-scene, edit-persona, remove-scene
  target text not null,
  before text,                               -- ids and hashes, never text
  after text
) strict;

create table embedding_spaces(
  id integer primary key autoincrement,
  provider text not null,
  model text not null,
  dimensions integer not null,
  prefix text not null,
  normalised integer not null,
  unique (provider, model, dimensions, prefix, normalised)
) strict;

create table embeddings(
  space integer not null references embedding_spaces(id) on delete cascade,
  layer text not null,
  seq integer not null,
  refused integer not null,
  error text not null,
  embedded_at integer not null,
  primary key (space, layer, seq)
) strict, without rowid;

create table embed_queue(                    -- rows without a vector in the space in use
  layer text not null,
  seq integer not null,
  primary key (layer, seq)
) strict, without rowid;

create table projections(
  scope text not null,
  filename text not null,
  hash text not null,
  primary key (scope, filename)
) strict, without rowid;

create virtual table messages_fts using fts5(text, {_FTS_OPTIONS});
create virtual table atoms_fts using fts5(text, {_FTS_OPTIONS});
create virtual table messages_terms using fts5vocab(messages_fts, row);
create virtual table atoms_terms using fts5vocab(atoms_fts, row);

insert into meta(key, value) values ('data_dir_id', lower(hex(randomblob(16)))), ('jobs_done', 0);
pragma application_id = {APPLICATION_ID};
"""

_PLACES = """
create table threads(                        -- messages that are neighbours: one host session under one key
  id integer primary key,
  scope text not null,
  session_key text not null,
  session_id text not null,
  messages integer not null,                 -- number of the newest one
  unique (scope, session_key, session_id)
) strict;

create table message_places(
  seq integer primary key references messages(seq) on delete cascade,
  place integer not null,                    -- the thread's id << 24 | number inside it: neighbours differ by one
  terms integer not null                     -- length of the message for the ranking
) strict;
create index message_places_by_place on message_places(place);

insert into threads(scope, session_key, session_id, messages)
  select scope, session_key, session_id, count(*) from messages group by scope, session_key, session_id;
insert into message_places(seq, place, terms)
  select m.seq, t.id << 24 | row_number() over (partition by t.id order by m.seq), 1 + length(m.text) / 6
  from messages m join threads t using (scope, session_key, session_id);

create virtual table messages_words using fts5vocab(messages_fts, instance);
"""

_PLAIN_VECTORS = """
delete from embeddings;                      -- vectors move from sqlite-vec's tables to plain ones, and are made anew
delete from embedding_spaces;
"""

_RULE_READ = """
create table rule_read(                      -- what only rules have read, in runs of messages: a model reads it again
  id integer primary key,
  scope text not null,
  session_key text not null,
  from_seq integer not null,
  to_seq integer not null
) strict;
create index rule_read_by_session on rule_read(scope, session_key, id);

insert into rule_read(scope, session_key, from_seq, to_seq)
  select m.scope, m.session_key, min(m.seq), max(s.l1_cursor)
  from atoms a join atom_sources x on x.atom = a.seq join messages m on m.seq = x.message
    join sessions s on s.scope = m.scope and s.session_key = m.session_key
  where a.extractor = 'rules' and a.superseded_at is null
  group by m.scope, m.session_key order by min(m.seq);
"""

_MESSAGE_KEYS = """
create table message_keys(                   -- what ranking asks of a message (store/message_keys.py)
  seq integer primary key references messages(seq) on delete cascade,
  role text not null,
  sent_at integer not null,
  speaker text not null,                     -- the name it begins with, or ''
  asks integer not null,                     -- 1: it holds a question
  words blob not null                        -- a number of four bytes for each word of its index text, in order
) strict;
insert into message_keys(seq, role, sent_at, speaker, asks, words)
  select seq, role, sent_at, speaker_of(text), asks(text), packed_words(text) from messages order by seq;

insert into meta(key, value) values ('messages_removed', 0);
create trigger message_removed after delete on message_places begin
  update meta set value = value + 1 where key = 'messages_removed';  -- what is held in memory is read again
end;
"""

_SPEECH_TIME = """
alter table atoms add column said_at integer not null default 0;   -- when the first of its own messages was said
alter table atoms add column end_said_at integer;                  -- when that was said which ended it
create index atoms_by_successor on atoms(superseded_by) where superseded_by is not null;

update atoms set said_at = coalesce(        -- messages that a predecessor handed on are not its own
  (select min(m.sent_at) from atom_sources x join messages m on m.seq = x.message where x.atom = atoms.seq
    and x.message not in (select y.message from atoms o join atom_sources y on y.atom = o.seq
      where o.superseded_by = atoms.id)),
  (select min(m.sent_at) from atom_sources x join messages m on m.seq = x.message where x.atom = atoms.seq),
  valid_from);
update atoms set end_said_at = coalesce(
  (select n.said_at from atoms n where n.id = atoms.superseded_by), valid_to) where superseded_at is not null;
"""

_GENERATIONS = """
alter table calls add column texts integer not null default 0;       -- of an embedding call
alter table calls add column estimated integer not null default 0;   -- 1: the endpoint named no tokens, they are ours
alter table calls add column generation text not null default '';    -- the replay that it was made for

create table generations(                    -- what was, or is being, made again from L0 (store/generations.py)
  id text primary key,
  state text not null,                       -- building, ready, kept
  scope text,                                -- null: everybody's
  model text not null,                       -- '' the one in use, 'rules', or a name
  made_at integer not null,
  changed_at integer not null,
  hash text not null                         -- of its content, once nothing changes it any more
) strict, without rowid;
"""

_FORGETTING = """
create table tombstones(                     -- what was forgotten, as hashes with a key (store/tombstones.py)
  scope text not null,
  kind text not null,                        -- turn, text, fact
  mark text not null,
  at integer not null,
  primary key (scope, kind, mark)
) strict, without rowid;

create table forget_wishes(                  -- "forget that", said in a conversation: waits for the owner
  id integer primary key autoincrement,
  scope text not null,
  session_key text not null,
  message text not null,                     -- the message that said it
  targets text not null,                     -- JSON: ids of the messages and atoms that are meant
  at integer not null,
  settled_at integer
) strict;
create index forget_wishes_open on forget_wishes(id) where settled_at is null;

create table pauses(                         -- spans of time in which nothing is remembered
  id integer primary key autoincrement,
  scope text,                                -- null: everybody's
  session text,                              -- a session, or a pattern of sessions; null: all of them
  since integer not null,
  until integer,                             -- null: until it is ended
  made_at integer not null
) strict;
"""

_QUARANTINE = """
create table quarantine(                     -- messages suspected of planting something (store/quarantine.py)
  message integer primary key references messages(seq) on delete cascade,
  scope text not null,
  reasons text not null,                     -- codes, with blanks between them
  state text not null,                       -- held, released, dropped
  at integer not null,
  settled_at integer
) strict;
create index quarantine_held on quarantine(scope, state);
"""

_CALLS_ABOUT = """
alter table calls add column about_from integer;   -- what it was about: messages (L1), atoms (L2), a persona's revision
alter table calls add column about_to integer;
"""

_UNREAD_NEWEST = """
create index sessions_unread_newest on sessions(scope, last_seq) where last_seq > l1_cursor;
"""

MIGRATIONS: tuple[tuple[int, str], ...] = (
    (1, _FIRST),
    (2, _PLACES),
    (3, _PLAIN_VECTORS),
    (4, _RULE_READ),
    (5, _MESSAGE_KEYS),
    (6, _SPEECH_TIME),
    (7, _GENERATIONS),
    (8, _FORGETTING),
    (9, _QUARANTINE),
    (10, _CALLS_ABOUT),
    (11, _UNREAD_NEWEST),
)
