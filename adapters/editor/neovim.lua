-- What runs inside Neovim: it looks, opens, shows a proposal beside its file, and tells what happens.
-- Loaded once a connection as a chunk that is given the channel; what it returns is kept in a global table by channel.
-- Lines and columns count from 1, columns in characters; paths are absolute.

local channel = ...
local M = { diffs = {}, last = nil }
local group = vim.api.nvim_create_augroup('tieline_' .. channel, { clear = true })
local SEVERITIES = { 'error', 'warning', 'info', 'hint' }

-- False once nobody is at the other end: then all that was set up goes.
local function tell(event, data)
  if pcall(vim.rpcnotify, channel, 'tieline', event, data) then
    return true
  end
  vim.schedule(M.leave)
  return false
end

local function is_file(buf)
  return vim.api.nvim_buf_is_valid(buf)
    and vim.bo[buf].buftype == ''
    and vim.api.nvim_buf_get_name(buf) ~= ''
    and not vim.api.nvim_buf_get_name(buf):match('^%w[%w+.-]+://')
end

-- The column of a byte (from 0) of a line, in characters from 1.
local function column(line, byte)
  line = line:gsub('%z', '\n') -- functions of Vim take a string with a NUL for a blob
  local index = vim.fn.charidx(line, math.min(byte, #line), 1)
  return (index < 0 and vim.fn.strchars(line) or index) + 1
end

local function line_of(buf, number)
  return vim.api.nvim_buf_get_lines(buf, number - 1, number, false)[1] or ''
end

-- The byte (from 0) of a column in characters from 1.
local function byte_of(line, col)
  line = line:gsub('%z', '\n')
  local byte = vim.fn.byteidxcomp(line, col - 1)
  return byte < 0 and #line or byte
end

local function buffer_of(path)
  local want = vim.uv.fs_realpath(path) or path
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if is_file(buf) and vim.api.nvim_buf_is_loaded(buf) then
      local name = vim.api.nvim_buf_get_name(buf)
      if name == path or (vim.uv.fs_realpath(name) or name) == want then
        return buf
      end
    end
  end
  return nil
end

-- Loads a file without the question about a swap file, which would wait for a key.
local function load_file(path)
  local before = vim.o.shortmess
  vim.opt.shortmess:append('A')
  local buf = vim.fn.bufadd(path)
  local ok, fault = pcall(vim.fn.bufload, buf)
  vim.o.shortmess = before
  if not ok then
    error(fault, 0)
  end
  return buf
end

-- Tells the person, in no more than one line: a longer one has to be answered by a key.
local function warn(words)
  vim.notify(vim.fn.strcharpart(words, 0, math.max(vim.o.columns - 20, 20)), vim.log.levels.WARN)
end

-- What of a file changes when somebody else writes it.
local function stamp_of(path)
  local stat = vim.uv.fs_stat(path)
  return stat and table.concat({ stat.ino, stat.size, stat.mtime.sec, stat.mtime.nsec }, ' ') or ''
end

-- Has a buffer without changes of the person's hold what is on the disk, without a question.
local function refresh(buf)
  local own = vim.bo[buf].autoread
  vim.bo[buf].autoread = true
  pcall(vim.cmd, 'silent! checktime ' .. buf)
  vim.bo[buf].autoread = own
end

local function selected()
  local buf = vim.api.nvim_get_current_buf()
  if not is_file(buf) then
    return nil
  end
  local path, mode = vim.api.nvim_buf_get_name(buf), vim.fn.mode()
  if mode == 'v' or mode == 'V' or mode == '\22' then
    local from, to = vim.fn.getpos('v'), vim.fn.getpos('.')
    local text = table.concat(vim.fn.getregion(from, to, { type = mode }), '\n')
    local ranges = vim.fn.getregionpos(from, to, { type = mode })
    local first, last = ranges[1][1], ranges[#ranges][2]
    local end_line = line_of(buf, last[2]):gsub('%z', '\n')
    if mode == 'V' then
      text = text .. '\n'
    end
    return {
      path = path,
      start_line = first[2],
      start_column = mode == 'V' and 1 or column(line_of(buf, first[2]), first[3] - 1),
      end_line = last[2],
      end_column = (mode == 'V' or last[3] > #end_line) and vim.fn.strchars(end_line) + 1
        or column(end_line, last[3] - 1) + 1,
      content = text,
    }
  end
  local cursor = vim.api.nvim_win_get_cursor(0)
  local col = column(line_of(buf, cursor[1]), cursor[2])
  return {
    path = path,
    start_line = cursor[1],
    start_column = col,
    end_line = cursor[1],
    end_column = col,
    content = '',
  }
end

function M.selection()
  return { current = selected() or vim.NIL, last = M.last or vim.NIL }
end

function M.open_files()
  local found = {}
  for _, buf in ipairs(vim.api.nvim_list_bufs()) do
    if is_file(buf) and vim.bo[buf].buflisted then
      table.insert(found, {
        path = vim.api.nvim_buf_get_name(buf),
        language = vim.bo[buf].filetype,
        modified = vim.bo[buf].modified,
        visible = #vim.fn.win_findbuf(buf) > 0,
        active = buf == vim.api.nvim_get_current_buf(),
      })
    end
  end
  return found
end

function M.diagnostics(path)
  local buf = nil
  if path ~= '' then
    buf = buffer_of(path)
    if buf == nil then
      return nil
    end
  end
  local found = {}
  for _, each in ipairs(vim.diagnostic.get(buf)) do
    if is_file(each.bufnr) then
      local line = line_of(each.bufnr, each.lnum + 1)
      table.insert(found, {
        path = vim.api.nvim_buf_get_name(each.bufnr),
        line = each.lnum + 1,
        column = column(line, each.col),
        severity = SEVERITIES[each.severity] or 'error',
        message = each.message,
        source = each.source or '',
      })
    end
  end
  return found
end

function M.open(path, line, col, end_line)
  local buf = load_file(path)
  vim.bo[buf].buflisted = true
  if vim.fn.mode() ~= 'n' then
    vim.cmd.stopinsert()
    vim.cmd('normal! \27')
  end
  local window = vim.fn.win_findbuf(buf)[1]
  if window then
    vim.api.nvim_set_current_win(window)
  else
    vim.api.nvim_win_set_buf(0, buf)
  end
  if line > 0 then
    local last = vim.api.nvim_buf_line_count(buf)
    line = math.min(line, last)
    vim.api.nvim_win_set_cursor(0, { line, byte_of(line_of(buf, line), math.max(col, 1)) })
    vim.cmd('normal! zvzz')
    if end_line > 0 then
      vim.cmd('normal! V' .. math.max(math.min(end_line, last), line) .. 'G')
    end
  end
end

function M.save(path)
  local buf = buffer_of(path)
  if buf == nil then
    return nil
  end
  local was = vim.bo[buf].modified
  if was then
    vim.api.nvim_buf_call(buf, function()
      vim.cmd('silent write')
    end)
  end
  return was
end

function M.is_modified(path)
  local buf = buffer_of(path)
  return buf ~= nil and vim.bo[buf].modified
end

-- Proposals

local function take_away(id)
  local diff = M.diffs[id]
  M.diffs[id] = nil
  if diff == nil then
    return
  end
  if vim.api.nvim_buf_is_valid(diff.proposed) then
    vim.bo[diff.proposed].modified = false
  end
  if vim.api.nvim_win_is_valid(diff.left) then
    vim.wo[diff.left].winbar = '' -- which is remembered with the buffer
  end
  if vim.api.nvim_tabpage_is_valid(diff.tab) and #vim.api.nvim_list_tabpages() > 1 then
    pcall(vim.cmd, 'tabclose! ' .. vim.api.nvim_tabpage_get_number(diff.tab))
  end
  if vim.api.nvim_buf_is_valid(diff.proposed) then
    pcall(vim.api.nvim_buf_delete, diff.proposed, { force = true })
  end
  if vim.api.nvim_tabpage_is_valid(diff.from) then
    vim.api.nvim_set_current_tabpage(diff.from)
  end
end

local function decide(id, decision, data)
  local diff = M.diffs[id]
  if diff == nil or diff.decided then
    return
  end
  diff.decided = true
  tell('diff', vim.tbl_extend('force', { id = id, decision = decision }, data or {}))
  vim.schedule(function()
    take_away(id)
  end)
end

local function accept(id)
  local diff = M.diffs[id]
  if diff == nil or diff.decided then
    return
  end
  if not tell('ping', {}) then
    return warn('The agent has gone: the proposal is not taken over')
  end
  local lines = vim.api.nvim_buf_get_lines(diff.proposed, 0, -1, false)
  local first = vim.api.nvim_buf_call(diff.proposed, function()
    return vim.fn.line2byte(1)
  end)
  if first == -1 then
    lines = {} -- an empty buffer has one line all the same
  end
  local eol = vim.bo[diff.real].fileformat == 'dos' and '\r\n' or '\n'
  local text = table.concat(lines, eol) .. (#lines > 0 and vim.bo[diff.proposed].endofline and eol or '')
  local stays = vim.api.nvim_buf_get_changedtick(diff.real) == diff.tick
  if not stays or diff.save and diff.stamp ~= stamp_of(vim.api.nvim_buf_get_name(diff.real)) then
    warn('The file was changed meanwhile: the proposal is not taken over')
    return decide(id, 'rejected', { reason = 'the file was changed meanwhile' })
  end
  if diff.save then
    local before = vim.api.nvim_buf_get_lines(diff.real, 0, -1, false)
    local had_end = vim.bo[diff.real].endofline
    vim.api.nvim_buf_set_lines(diff.real, 0, -1, false, lines)
    vim.bo[diff.real].endofline = vim.bo[diff.proposed].endofline
    vim.bo[diff.real].fixendofline = false
    vim.bo[diff.real].buflisted = true
    local ok, fault = pcall(vim.api.nvim_buf_call, diff.real, function()
      vim.cmd('silent write ++p')
    end)
    if not ok then
      vim.api.nvim_buf_set_lines(diff.real, 0, -1, false, before)
      vim.bo[diff.real].endofline = had_end
      vim.bo[diff.real].modified = false
      local why = tostring(fault):match('E%d+: [^\n]*') or tostring(fault):match('[^\n]*')
      warn('Not saved: ' .. why)
      return decide(id, 'rejected', { reason = 'it could not be saved: ' .. why })
    end
  end
  vim.bo[diff.proposed].modified = false
  decide(id, 'accepted', { text = text, saved = diff.save })
end

function M.show(id, path, text, save)
  local real = load_file(path)
  refresh(real)
  if vim.bo[real].fileformat == 'dos' then
    text = text:gsub('\r\n', '\n')
  end
  local from = vim.api.nvim_get_current_tabpage()
  vim.cmd.tabnew()
  local tab, empty = vim.api.nvim_get_current_tabpage(), vim.api.nvim_get_current_buf()
  vim.api.nvim_win_set_buf(0, real)
  pcall(vim.api.nvim_buf_delete, empty, {})
  vim.cmd.diffthis()
  local left = vim.api.nvim_get_current_win()
  vim.wo.winbar = ' As it is '
  vim.cmd('rightbelow vnew')
  local proposed = vim.api.nvim_get_current_buf()
  local ends = text == '' or text:sub(-1) == '\n'
  local lines = text == '' and {} or vim.split(ends and text:sub(1, -2) or text, '\n', { plain = true })
  vim.api.nvim_buf_set_lines(proposed, 0, -1, false, lines)
  vim.bo[proposed].endofline = ends
  vim.bo[proposed].fixendofline = false
  vim.bo[proposed].buftype = 'acwrite'
  vim.bo[proposed].bufhidden = 'wipe'
  vim.bo[proposed].filetype = vim.bo[real].filetype
  vim.api.nvim_buf_set_name(proposed, 'tieline://' .. channel .. '/' .. id .. '/' .. vim.fs.basename(path))
  vim.bo[proposed].modified = false
  vim.cmd.diffthis()
  vim.wo.winbar = ' Proposed: :w accepts, :q rejects '
  M.diffs[id] = {
    tab = tab,
    from = from,
    left = left,
    real = real,
    proposed = proposed,
    save = save,
    tick = vim.api.nvim_buf_get_changedtick(real),
    stamp = stamp_of(path),
  }
  vim.api.nvim_create_autocmd('BufWriteCmd', {
    group = group,
    buffer = proposed,
    callback = function()
      accept(id)
    end,
  })
  vim.api.nvim_create_autocmd({ 'BufWipeout', 'BufUnload' }, {
    group = group,
    buffer = proposed,
    callback = function()
      if vim.v.exiting == vim.NIL then
        decide(id, 'rejected')
      else
        decide(id, 'undecided', { reason = 'the editor was closed' })
      end
    end,
  })
  vim.api.nvim_create_autocmd('TabClosed', {
    group = group,
    callback = function()
      if not vim.api.nvim_tabpage_is_valid(tab) then
        decide(id, 'rejected')
        return M.diffs[id] == nil
      end
    end,
  })
end

function M.take_away(id)
  take_away(id)
end

-- Events

local timer, told = assert(vim.uv.new_timer()), ''

local function moved()
  timer:stop()
  timer:start(50, 0, vim.schedule_wrap(function()
    local now = selected()
    local key = vim.inspect(now)
    if now ~= nil and key ~= told then
      told = key
      tell('selection_changed', now)
    end
  end))
end

vim.api.nvim_create_autocmd({ 'CursorMoved', 'CursorMovedI', 'ModeChanged', 'BufEnter' }, {
  group = group,
  callback = function()
    local now = selected()
    if now ~= nil and now.content ~= '' then
      M.last = now
    end
    moved()
  end,
})

vim.api.nvim_create_autocmd('BufWritePost', {
  group = group,
  callback = function(event)
    if is_file(event.buf) then
      tell('saved', { path = vim.api.nvim_buf_get_name(event.buf) })
    end
  end,
})

vim.api.nvim_create_autocmd('DiagnosticChanged', {
  group = group,
  callback = function(event)
    if is_file(event.buf) then
      tell('diagnostics_changed', { path = vim.api.nvim_buf_get_name(event.buf) })
    end
  end,
})

M.tell = tell

vim.api.nvim_create_user_command('TielineMention', function(range)
  local buf = vim.api.nvim_get_current_buf()
  if is_file(buf) then
    local about = { path = vim.api.nvim_buf_get_name(buf), start_line = range.line1, end_line = range.line2 }
    for _, each in pairs(_G.tieline_editors) do
      each.tell('mentioned', about)
    end
  end
end, { range = true, desc = 'Tell the agent of these lines' })

function M.leave()
  for id in pairs(M.diffs) do
    take_away(id)
  end
  timer:stop()
  if not timer:is_closing() then
    timer:close()
  end
  pcall(vim.api.nvim_del_augroup_by_id, group)
  _G.tieline_editors[channel] = nil
end

_G.tieline_editors = _G.tieline_editors or {}
_G.tieline_editors[channel] = M
