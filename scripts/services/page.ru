# As a Rails application does: each request makes records, a page of them from a template, and JSON.
require 'erb'
require 'json'
require 'sinatra/base'
require 'zlib'

class Page < Sinatra::Base
  KEPT = []
  TEMPLATE = ERB.new(<<~END)
    <table><% rows.each do |row| %>
      <tr><td><%= row[:id] %></td><td><%= ERB::Util.h(row[:name]) %></td>
      <td><%= ERB::Util.h(row[:text]) %></td></tr>
    <% end %></table>
  END

  get '/' do
    numbers = Random.new(params['n'].to_i)
    rows = Array.new(4000) do |id|
      { id: id, name: "name <#{numbers.rand(1000)}>", text: 'text & ' * numbers.rand(20..300) }
    end
    page = TEMPLATE.result_with_hash(rows: rows)
    KEPT.concat(rows.each_slice(750).map(&:first))
    Zlib.crc32(page + JSON.generate(rows)).to_s(16)
  end
end

run Page
